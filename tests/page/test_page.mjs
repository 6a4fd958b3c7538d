// What the page of `worsegpu-lab replay --html` does for the one who looks at it; see browser.mjs.
import assert from "node:assert/strict";
import { renameSync, statSync } from "node:fs";
import { after, test } from "node:test";
import { coloursOf, end, makePage, makePageOf, momentOf, open, pictureOf, placeUnderPointer, roomPath, settle } from "./browser.mjs";

const training = makePage("training", ["training", "steps=4", "layers=8"]);
const refused = makePage("refused", ["pins"], ["--policy", "list_fit fit=best", "--capacity", "2200MiB"]);

after(end);

async function on(path, options, look) {
  const opened = await open(path, options);
  try {
    await look(opened.page);
    assert.deepEqual(opened.wrong, []);
  } finally {
    await opened.close();
  }
}

test("the page shows the run without an error and without a request", () =>
  on(training, {}, async (page) => {
    assert.equal(await page.locator("h1").textContent(), "training.ndjson");
    assert.match(await page.locator("#about").textContent(), /policy torch.*without limit/);
    assert.match(await page.locator("#figures").textContent(), /peak reserved.*peak live.*floor/);
    assert.ok((await coloursOf(page, "#map-blocks")) > 4);
    assert.ok((await coloursOf(page, "#strip")) > 3);
    assert.ok((await page.locator("#policies tbody tr").count()) > 15);
  }));

test("nothing may be fetched, also by what might get into the page", () =>
  on(training, {}, async (page) => {
    const policy = await page.locator("meta[http-equiv=Content-Security-Policy]").getAttribute("content");
    assert.match(policy, /^default-src 'none'; script-src 'sha256-[^ ]+'; style-src 'sha256-[^ ]+'; /);
    assert.equal(await page.evaluate(() => performance.getEntriesByType("resource").length), 0);
    assert.equal(await page.locator("[src], link[href]").count(), 0);
  }));

test("the wheel zooms in where the pointer is, and the button shows everything again", () =>
  on(training, {}, async (page) => {
    const before = await pictureOf(page, "#map-blocks");
    const last = await placeUnderPointer(page, 0.98);
    const there = await placeUnderPointer(page, 0.25);
    for (let i = 0; i < 8; i++) await page.mouse.wheel(0, -200);
    await settle(page);
    assert.ok(Math.abs((await placeUnderPointer(page, 0.25)) - there) <= 1);
    assert.ok((await placeUnderPointer(page, 0.98)) < last / 2);
    assert.notEqual(await pictureOf(page, "#map-blocks"), before);
    await page.locator("#zoom-all").click();
    await settle(page);
    assert.equal(await placeUnderPointer(page, 0.98), last);
    assert.equal(await pictureOf(page, "#map-blocks"), before);
  }));

test("dragging over the chart zooms to what was dragged over", () =>
  on(training, {}, async (page) => {
    const from = await placeUnderPointer(page, 0.4);
    const to = await placeUnderPointer(page, 0.6);
    const box = await page.locator(".u-over").boundingBox();
    await page.mouse.move(box.x + box.width * 0.4, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 45);
    await page.mouse.move(box.x + box.width * 0.6, box.y + 50);
    await page.mouse.up();
    await settle(page);
    assert.ok(Math.abs((await placeUnderPointer(page, 0.001)) - from) <= 2);
    assert.ok(Math.abs((await placeUnderPointer(page, 0.999)) - to) <= 2);
    await page.locator(".u-over").dblclick();
    await settle(page);
    assert.ok((await placeUnderPointer(page, 0.001)) <= 2);
  }));

test("dragging over the map scrubs, and the strip and the words follow", () =>
  on(training, {}, async (page) => {
    await page.locator("#map").scrollIntoViewIfNeeded();
    const box = await page.locator("#map").boundingBox();
    const strip = await pictureOf(page, "#strip");
    await page.mouse.move(box.x + box.width * 0.3, box.y + 100);
    await page.mouse.down();
    await settle(page);
    const first = await momentOf(page);
    await page.mouse.move(box.x + box.width * 0.6, box.y + 120, { steps: 4 });
    await settle(page);
    const second = await momentOf(page);
    await page.mouse.up();
    assert.ok(second > first);
    assert.match(await page.locator("#moment-text").textContent(), new RegExp("^Event " + second.toLocaleString("en-US") + " of "));
    assert.notEqual(await pictureOf(page, "#strip"), strip);
    await page.mouse.move(box.x + box.width * 0.3, box.y + 100);
    await settle(page);
    assert.equal(await momentOf(page), second);
  }));

test("the block under the pointer is told with its size, age and number, on the map and in the strip", () =>
  on(training, {}, async (page) => {
    const tip = page.locator("#tip");
    assert.ok(await tip.isHidden());
    await page.locator("#strip").hover({ position: { x: 30, y: 10 } });
    await settle(page);
    assert.match(await tip.textContent(), /\d MiB \([\d,]+ bytes\)allocation#\d+at0x[0-9a-f]+events.*age\d+ event/);
    await page.mouse.move(10, 10);
    await settle(page);
    assert.ok(await tip.isHidden());
    await page.locator("#map").hover({ position: { x: 500, y: 377 } });
    await settle(page);
    assert.match(await tip.textContent(), /bytes\)allocation#1/);
  }));

test("the keys step, zoom and show everything", () =>
  on(training, {}, async (page) => {
    const whole = await pictureOf(page, "#map-blocks");
    await page.locator("#map").focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await settle(page);
    assert.equal(await momentOf(page), 3);
    await page.keyboard.press("+");
    await page.keyboard.press("PageUp");
    await settle(page);
    assert.notEqual(await pictureOf(page, "#map-blocks"), whole);
    await page.keyboard.press("0");
    await settle(page);
    assert.equal(await pictureOf(page, "#map-blocks"), whole);
  }));

test("events and time are two axes of the same run", () =>
  on(training, {}, async (page) => {
    const moment = await momentOf(page);
    await page.locator("#axis span", { hasText: "Time" }).click();
    await settle(page);
    await page.mouse.move(5, 5);
    await settle(page);
    assert.match(await page.locator(".u-legend .u-value").first().textContent(), /s$/);
    assert.equal(await momentOf(page), moment);
    assert.ok((await coloursOf(page, "#map-blocks")) > 4);
  }));

test("a column of the table sorts by a click, and says so to those who cannot see it", () =>
  on(training, {}, async (page) => {
    const header = page.locator("#policies thead th", { hasText: "peak reserved" });
    await header.locator("button").click();
    assert.equal(await header.getAttribute("aria-sort"), "ascending");
    const up = await page.locator("#policies tbody tr:not(.floor) th").allTextContents();
    await header.locator("button").click();
    assert.equal(await header.getAttribute("aria-sort"), "descending");
    const down = await page.locator("#policies tbody tr:not(.floor) th").allTextContents();
    assert.notDeepEqual(up, down);
    assert.equal(up.length, down.length);
  }));

test("an out of memory is told, marked, and one click away", () =>
  on(refused, {}, async (page) => {
    assert.match(await page.locator("#figures .bad").textContent(), /out of memory1/);
    assert.match(await page.locator("pre.story").textContent(), /out of memory under list_fit/);
    assert.doesNotMatch(await page.locator("pre.story").textContent(), /\//);
    await page.locator("#step-back").click();
    const other = await momentOf(page);
    await page.locator("#story button").click();
    await settle(page);
    assert.notEqual(await momentOf(page), other);
    assert.match(await page.locator("#moment-text").textContent(), /were refused: out of memory/);
  }));

test("dark mode is dark, also when it begins later", () =>
  on(training, { dark: true }, async (page) => {
    const shade = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number)[0]);
    assert.ok((await shade()) < 40);
    const dark = await pictureOf(page, "#map-blocks");
    await page.emulateMedia({ colorScheme: "light" });
    await settle(page);
    assert.ok((await shade()) > 200);
    assert.notEqual(await pictureOf(page, "#map-blocks"), dark);
  }));

test("a window of 360 pixels shows everything, and scrolls sideways nowhere but in tables", () =>
  on(refused, { width: 360, height: 740 }, async (page) => {
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
    const outside = await page.$$eval("h1, h2, button, select, input, canvas, p, .figures div", (all) =>
      all.filter((one) => !one.closest(".scroll") && one.getClientRects().length > 0 && one.getBoundingClientRect().right > 361).map((one) => one.outerHTML.slice(0, 80)));
    assert.deepEqual(outside, []);
    await page.setViewportSize({ width: 900, height: 700 });
    await settle(page);
    const map = await page.locator("#map-blocks").boundingBox();
    assert.ok(map.width > 700);
  }));

test("everything that can be used has a name, and every table its headers", () =>
  on(refused, {}, async (page) => {
    const nameless = await page.$$eval("button, select, input, [tabindex]", (all) =>
      all.filter((one) => !(one.textContent.trim() || one.ariaLabel || one.getAttribute("aria-labelledby") || one.closest("label")?.textContent.trim())).map((one) => one.outerHTML.slice(0, 80)));
    assert.deepEqual(nameless, []);
    assert.equal(await page.locator("#policies tbody tr").count(), await page.locator("#policies tbody th[scope=row]").count());
  }));

test("a log with a hostile name is a name and nothing more", async () => {
  const log = roomPath("<img src=x onerror=alert(1)>&amp;.ndjson");
  makePage("plain", ["pins", "pairs=2"]);
  renameSync(roomPath("plain.ndjson"), log);
  await on(makePageOf(log, "hostile.html"), {}, async (page) => {
    assert.equal(await page.locator("h1").textContent(), "<img src=x onerror=alert(1)>&amp;.ndjson");
    assert.equal(await page.locator("img").count(), 0);
  });
});

test("a log without anything to see is a page all the same", async () => {
  const page = makePage("tiny", ["demo", "steps=1"], ["--policy", "worse", "--quick"]);
  await on(page, {}, async (opened) => assert.match(await opened.locator("#moment-text").textContent(), /Event 1 of/));
});

test("100,000 events open whole, and answer to the pointer", async () => {
  const large = makePage("large", ["random", "events=100000"], ["--quick"]);
  assert.ok(statSync(large).size < 12e6);
  await on(large, {}, async (page) => {
    assert.doesNotMatch(await page.locator("#notes").textContent(), /thinned|largest/);
    const before = await pictureOf(page, "#map-blocks");
    await placeUnderPointer(page, 0.5);
    for (let i = 0; i < 6; i++) await page.mouse.wheel(0, -300);
    await settle(page);
    assert.notEqual(await pictureOf(page, "#map-blocks"), before);
    await page.locator("#map").scrollIntoViewIfNeeded();
    const box = await page.locator("#map").boundingBox();
    await page.mouse.move(box.x + 400, box.y + 200);
    await page.mouse.down();
    await page.mouse.move(box.x + 600, box.y + 200, { steps: 5 });
    await page.mouse.up();
    assert.match(await page.locator("#moment-text").textContent(), /of 100,598/);
  });
});

test("a larger log is thinned, and the page says by which rule", async () => {
  const huge = makePage("huge", ["random", "events=600000"], ["--quick", "--policy", "worse"]);
  await on(huge, {}, async (page) => {
    const notes = await page.locator("#notes").textContent();
    assert.match(notes, /The timeline is thinned: of every \d+ events it keeps/);
    assert.ok((await coloursOf(page, "#map-blocks")) > 4);
  });
});
