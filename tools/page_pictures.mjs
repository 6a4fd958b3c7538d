// Makes the pictures of the page that the README shows, from a real page of a made-up run:
//
//   PAGE_MODULES=... WORSEGPU_BUILD=... node tools/page_pictures.mjs FOLDER
//
// Its neighbour tools/pagecheck.sh calls it.
import { join } from "node:path";
import { end, makePage, open, settle } from "../tests/page/browser.mjs";

const folder = process.argv[2];
const page = makePage("training", ["training", "steps=6", "layers=10", "--seed", "7"], ["--capacity", "2700MiB"]);

async function picture(name, options, height) {
  const opened = await open(page, options);
  await opened.page.mouse.move(2, 2);
  await settle(opened.page);
  await opened.page.screenshot({ path: join(folder, name), clip: { x: 0, y: 0, width: options.width, height }, fullPage: true });
  await opened.close();
}

await picture("replay-light.png", { width: 1100, height: 900 }, 1330);
await picture("replay-dark.png", { width: 1100, height: 900, dark: true }, 1330);
await end();
