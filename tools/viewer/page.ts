/** The page that `npm run view` serves. */
import { mount } from "./main.ts";

const lang = navigator.language.startsWith("zh") ? "zh" : "en";
document.documentElement.lang = lang;
const main = document.querySelector("main");
const { file = "", choose } = main?.dataset ?? {};
if (main) mount(main, { served: { file, isOpen: choose !== undefined }, lang });
