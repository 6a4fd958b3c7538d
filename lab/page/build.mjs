// Makes the one file of the page from its sources and uPlot:
//
//   node build.mjs NODE_MODULES > page.html
//
// The same sources give the same bytes. What the page may do is written into it: scripts and styles are
// allowed by their hashes, and nothing may be fetched.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const modules = process.argv[2];
if (!modules) {
  console.error("usage: node build.mjs NODE_MODULES");
  process.exit(2);
}

const source = (name) => readFileSync(join(here, "source", name), "utf8");
const uplot = (name) => readFileSync(join(modules, "uplot", name), "utf8");

// In this order, in one scope: each uses only what stands before it.
const SCRIPTS = [
  "columns.js",
  "words.js",
  "data.js",
  "squeeze.js",
  "view.js",
  "colours.js",
  "tip.js",
  "timeline.js",
  "address_map.js",
  "moment.js",
  "policies.js",
  "story.js",
  "main.js",
];

const licence = uplot("LICENSE").trim();
const css = uplot("dist/uPlot.min.css").trim() + "\n" + source("page.css").trim();
const js =
  "/*\nThis page contains uPlot (https://github.com/leeoniya/uPlot):\n\n" +
  licence +
  "\n*/\n" +
  uplot("dist/uPlot.iife.js").trim() +
  '\n(function () {\n"use strict";\n' +
  SCRIPTS.map((name) => source(name).trim()).join("\n\n") +
  "\n})();";

const hash = (text) => "'sha256-" + createHash("sha256").update(text).digest("base64") + "'";
const policy = [
  "default-src 'none'",
  "script-src " + hash(js),
  "style-src " + hash(css),
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

for (const [what, text] of [["script", js], ["style", css]]) {
  if (text.toLowerCase().includes("</" + what) || text.includes("<!--")) {
    console.error(`the ${what} would end before its end`);
    process.exit(1);
  }
}

const page = source("page.html")
  .replace("@POLICY@", () => policy)
  .replace("@STYLE@", () => css)
  .replace("@SCRIPT@", () => js);
if (page.split("<!--DATA-->").length !== 2) {
  console.error("page.html must have one place for the data");
  process.exit(1);
}
process.stdout.write(page);
