// The list beside the plot. Click moves the cursor there.

import { fill, h, icon } from "../lib/dom.js";
import { clock, dateClockZone } from "../lib/format.js";

export function createHappened(onPick) {
  const list = h("ol");
  const el = h(
    "section",
    { class: "panel seq", "aria-label": "What happened" },
    h("h2", null, "What happened"),
    list,
  );
  let key = "";
  const show = (items) => {
    const now = JSON.stringify(items);
    if (now === key) {
      return;
    }
    key = now;
    fill(
      list,
      items.map((i) =>
        h(
          "li",
          null,
          icon(i.glyph, toneClass(i.tone)),
          h(
            "button",
            { type: "button", class: `t ${toneClass(i.tone)}`, onclick: () => onPick(i.at_us) },
            i.title,
          ),
          h(
            "time",
            { class: "d", datetime: new Date(i.at_us / 1000).toISOString(), title: dateClockZone(i.at_us) },
            clock(i.at_us, i.kind ? 3 : 0),
          ),
          h("span", { class: "w" }, i.delay ? h("b", null, i.delay, " ") : "", i.text),
        ),
      ),
    );
  };
  return { el, show };
}

const toneClass = (tone) => (tone === "warn" ? "c-warn" : tone === "bad" ? "c-bad" : "");
