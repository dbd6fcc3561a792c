/** The page that `npm run view` serves. */
import { mount } from "./main.ts";
import type { Served } from "./sessions-list.ts";

const lang = navigator.language.startsWith("zh") ? "zh" : "en";
document.documentElement.lang = lang;
const main = document.querySelector("main");
const served: Served = JSON.parse(main?.dataset.served ?? "");
if (main) mount(main, { served, lang });
