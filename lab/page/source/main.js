// The head of the page, its buttons, and what it leaves out.
(function () {
  document.title = DATA.log + " \u2013 worsegpu replay";
  find("log").textContent = DATA.log;
  const about = [
    "policy " + DATA.policy,
    DATA.capacity_bytes === null ? "device without limit" : "device of " + sizeText(DATA.capacity_bytes),
    DATA.format,
    plural(DATA.events, "event", "events"),
    plural(DATA.sum.allocations, "allocation", "allocations"),
  ];
  if (DATA.times) about.push(timeText(DATA.sum.span_us));
  for (const text of about) find("about").append(element("span", text));

  const sum = DATA.sum;
  const figures = [
    ["peak reserved", sizeText(sum.peak_reserved_bytes), "event " + countText(sum.peak_reserved_event)],
    ["peak live", sizeText(sum.peak_live_bytes), "event " + countText(sum.peak_live_event)],
    ["floor", sizeText(DATA.floor_bytes), "no policy needs less"],
    ["overhead", DATA.floor_bytes > 0 ? (sum.peak_reserved_bytes / DATA.floor_bytes).toFixed(3) : "\u2013", "reserved / floor"],
    ["out of memory", countText(sum.ooms), sum.ooms > 0 ? "first at event " + countText(ooms.number[0]) : "never"],
    ["retries", countText(sum.retries), plural(sum.device_calls, "device call", "device calls")],
  ];
  if (sum.host > 0) figures.push(["on the host", countText(sum.host), "allocations"]);
  if (sum.forgotten_bytes > 0) figures.push(["forgotten", sizeText(sum.forgotten_bytes), "freed, but lost"]);
  for (const [name, value, note] of figures) {
    const one = element("div", undefined, name === "out of memory" && sum.ooms > 0 ? "bad" : "");
    one.append(element("dt", name), element("dd", value), element("dd", note, "note"));
    find("figures").append(one);
  }

  find("zoom-in").addEventListener("click", () => view.zoom(0.5, view.placeOfMoment()));
  find("zoom-out").addEventListener("click", () => view.zoom(2, view.placeOfMoment()));
  find("zoom-all").addEventListener("click", () => view.showAll());
  for (const input of find("axis").querySelectorAll("input")) {
    input.checked = input.value === "event";
    input.addEventListener("change", () => view.useAxis(input.value));
  }
  find("axis").hidden = !DATA.times || sum.span_us === 0;
  find("colour").value = "size";
  find("colour").addEventListener("change", (event) => colours.useRule(event.target.value));
  colours.describe();

  const notes = [];
  if (DATA.stretch_rows > 1)
    notes.push("The timeline is thinned: of every " + countText(DATA.stretch_rows) + " events it keeps the first and the last, and those with the least and the most live and reserved memory. Peaks are exact.");
  if (DATA.blocks_in_all > blocks.count)
    notes.push("The map has the largest " + countText(blocks.count) + " of " + countText(DATA.blocks_in_all) + " blocks: all well above " + sizeText(DATA.least_block_bytes) + ", none below.");
  if (DATA.segments_left_out > 0) notes.push(countText(DATA.segments_left_out) + " segments are left out.");
  if (squeeze.cuts.length > 0) notes.push("Stretches of addresses that were never used are cut short (dotted lines).");
  if (sum.ooms > ooms.count) notes.push("Only the first " + countText(ooms.count) + " refusals are marked.");
  notes.push("Made by worsegpu-lab " + DATA.version + ". Charts by uPlot (MIT licence, in the source of this page).");
  for (const text of notes) find("notes").append(element("p", text));

  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => {
    colours.readTheme();
    view.change("theme");
  });
  new ResizeObserver(() => view.change("size")).observe(document.querySelector("main"));
  view.choose(ooms.count > 0 ? ooms.number[0] : Math.max(1, sum.peak_live_event));
  view.change("size");
  view.change("stretch");
  document.documentElement.dataset.ready = "yes";
})();
