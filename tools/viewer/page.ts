/** The page that `npm run view` serves. */
import { mount, type Served } from "./main.ts";

const lang = navigator.language.startsWith("zh") ? "zh" : "en";
document.documentElement.lang = lang;
const main = document.querySelector("main");
const served: Served = JSON.parse(main?.dataset.served ?? "");
if (main) mount(main, { served, lang });
