// The first out of memory, in the words of `worsegpu-lab explain`.
(function () {
  const place = find("story");
  if (ooms.count === 0) {
    const device = DATA.capacity_bytes === null ? "Nothing was refused: the device was without limit." : "Nothing was refused: the log runs on this device.";
    place.append(element("p", device));
    return;
  }
  const all = DATA.sum.ooms;
  const line = element("p");
  line.append(
    plural(all, "request was", "requests were") + " refused. The first one asked for " + sizeText(ooms.bytes[0]) + " at event " + countText(ooms.number[0]) + ". ",
  );
  const button = element("button", "Show that moment");
  button.type = "button";
  button.addEventListener("click", () => {
    view.choose(ooms.number[0]);
    view.follow();
    find("moment-title").scrollIntoView({ block: "start", behavior: "smooth" });
  });
  line.append(button);
  place.append(line);
  if (DATA.story) place.append(element("pre", DATA.story.trim(), "story"));
  else place.append(element("p", "The whole story: worsegpu-lab explain LOG --capacity SIZE.", "hint"));
})();
