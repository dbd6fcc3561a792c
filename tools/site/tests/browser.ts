/** Serves the built site and opens it in Chromium. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { type BrowserContextOptions, chromium, type Page } from "playwright-core";

const DIST = fileURLToPath(new URL("../.vitepress/test", import.meta.url));
/** npm run test:site builds for this path, so that links without it fail. */
export const BASE = "/six-lessons/";
export const REPOSITORY = "https://github.com/example/six-lessons";
const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};

/** The paths of all pages, such as `index.html` and `zh/s01_agent_loop.html`. */
export const builtPages = readdirSync(DIST, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".html") && path !== "404.html")
  .sort();
export const htmlOf = (page: string) => readFileSync(join(DIST, page), "utf8");

const server = createServer(({ url = "" }, response) => {
  const path = decodeURI(new URL(url, "http://localhost").pathname);
  const file = join(DIST, path.slice(BASE.length).replace(/(^|\/)$/, "$1index.html"));
  const found = path.startsWith(BASE) && existsSync(file);
  response.writeHead(found ? 200 : 404, {
    "content-type": TYPES[extname(file)] ?? "application/octet-stream",
    "cache-control": path.startsWith(`${BASE}assets/`) ? "max-age=3600" : "no-store", // assets have a hash in their names
  });
  response.end(found ? readFileSync(file) : "");
}).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const { port } = server.address() as AddressInfo;
export const urlOf = (page: string) => `http://127.0.0.1:${port}${BASE}${page}`;

/** The installed Chromium, or else the one from a package, which runs on Linux. */
async function findChromium(): Promise<string> {
  const { CHROMIUM } = process.env;
  const places = [
    "/usr/bin/chromium",
    "/usr/bin/google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  ];
  const found = CHROMIUM || places.find((place) => existsSync(place));
  if (found && found !== "package") return found;
  const folder = mkdtempSync(join(tmpdir(), "chromium-")); // each test process unpacks its own
  after(() => rmSync(folder, { recursive: true, force: true }));
  process.env.TMPDIR = folder;
  const { default: packaged } = await import("@sparticuz/chromium");
  return packaged.executablePath();
}

const OFFLINE = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
const browser = await chromium.launch({
  executablePath: await findChromium(),
  args: ["--headless", "--no-sandbox", "--disable-gpu", ...OFFLINE],
});
after(async () => {
  await browser.close();
  server.close();
});

export const WIDE = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };

/** Opens a page in a tab with a cache and options of its own, and closes the tab after the work. */
export async function inTab(page: string, options: BrowserContextOptions, work: (page: Page) => Promise<void>) {
  const tab = await browser.newPage({ viewport: WIDE, ...options });
  tab.setDefaultTimeout(120_000); // a busy machine is slow
  try {
    await tab.goto(urlOf(page));
    const isMounted = '"__vue_app__" in document.querySelector("#app")';
    if (options.javaScriptEnabled !== false) await tab.waitForFunction(isMounted);
    await work(tab);
  } finally {
    await tab.close();
  }
}
