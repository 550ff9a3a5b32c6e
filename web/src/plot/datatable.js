// The numbers of the plot as a table, for those who cannot see the canvas.

import { h } from "../lib/dom.js";
import { bytes, clock } from "../lib/format.js";

const MOST_ROWS = 40;
const COLUMNS = ["Time", "Charge", "Reserved", "Active"];

/** Fills the table with the highest values from each time on, at most MOST_ROWS of them. */
export function fillDataTable(table, model) {
  const every = Math.max(1, Math.ceil(model.t.length / MOST_ROWS));
  const cell = (v) => h("td", null, v === null || v === undefined ? "unknown" : bytes(v));
  const row = (us, i) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, clock(us, 1)),
      cell(model.chargeMax[i]),
      cell(model.reservedMax[i]),
      cell(model.activeMax[i]),
    );
  table.replaceChildren(
    h("caption", null, "Highest charge, reserved and active from each time on"),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        COLUMNS.map((n) => h("th", { scope: "col" }, n)),
      ),
    ),
    h("tbody", null, model.t.map((us, i) => (i % every === 0 ? row(us, i) : null)).filter(Boolean)),
  );
}
