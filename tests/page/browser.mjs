// The page of `worsegpu-lab replay --html` in headless Chromium:
//
//   NODE_PATH-like folder of modules, worsegpu-lab and a room for files come from the environment:
//   PAGE_MODULES=... WORSEGPU_BUILD=... node --test tests/page/
//
// Pages are made from logs that `worsegpu-lab generate` makes: the same on every machine.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const { chromium } = createRequire(resolve(process.env.PAGE_MODULES, "package.json"))("playwright-core");
const lab = resolve(process.env.WORSEGPU_BUILD ?? "build", "worsegpu-lab");
const room = mkdtempSync(join(tmpdir(), "worsegpu-page-"));
// Longer than anything takes that works: only a hanging test meets it.
const PATIENCE_MS = 240000;
let browser = null;

// A page of a made-up run; its path.
export function makePage(name, shape, options = []) {
  const log = join(room, name + ".ndjson");
  const page = join(room, name + ".html");
  execFileSync(lab, ["generate", ...shape, "--output", log]);
  execFileSync(lab, ["replay", log, "--html", page, ...options]);
  return page;
}

export function makePageOf(log, page, options = []) {
  const path = join(room, page);
  execFileSync(lab, ["replay", log, "--html", path, ...options]);
  return path;
}

export function roomPath(name) {
  return join(room, name);
}

// Opens a page, and notes everything that must not happen: errors, and requests for anything but the page.
export async function open(path, { width = 1180, height = 900, dark = false, scale = 1 } = {}) {
  browser ??= await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    deviceScaleFactor: scale,
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const wrong = [];
  const address = "file://" + path;
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") wrong.push("console: " + message.text());
  });
  page.on("pageerror", (error) => wrong.push("error: " + error.message));
  page.on("request", (request) => {
    if (request.url() !== address) wrong.push("request: " + request.url().slice(0, 100));
  });
  page.on("dialog", (dialog) => {
    wrong.push("dialog: " + dialog.message());
    dialog.dismiss();
  });
  await page.goto(address);
  await page.waitForFunction(() => document.documentElement.dataset.ready === "yes");
  await settle(page);
  return { page, wrong, close: () => context.close() };
}

// Until what was asked for is drawn.
export async function settle(page) {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))));
}

export async function end() {
  if (browser) await browser.close();
  rmSync(room, { recursive: true, force: true });
}

// Looks at a copy of a canvas: reading the page's own one would make the browser draw it in another way.
function look(page, selector, what) {
  return page.$eval(
    selector,
    (canvas, what) => {
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
      copy.drawImage(canvas, 0, 0);
      const pixels = new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
      if (what === "colours") return new Set(pixels).size;
      return pixels.reduce((sum, pixel) => (Math.imul(sum, 31) + pixel) | 0, 0);
    },
    what,
  );
}

// How many different colours a canvas shows.
export function coloursOf(page, selector) {
  return look(page, selector, "colours");
}

// A number that changes with the picture.
export function pictureOf(page, selector) {
  return look(page, selector, "sum");
}

export function momentOf(page) {
  return page.$eval("#scrub", (slider) => Number(slider.value));
}

// The labels of the horizontal axis are drawn, not written: the legend says what the pointer is at.
export async function placeUnderPointer(page, share) {
  const box = await page.locator(".u-over").boundingBox();
  await page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
  await settle(page);
  const text = await page.locator(".u-legend .u-value").first().textContent();
  return Number(text.replace(/[^0-9]/g, ""));
}
