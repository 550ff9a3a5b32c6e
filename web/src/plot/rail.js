// The rail of markers above the plot: a glyph each and its word where it fits; marks that stand
// closer than 15 px merge into one with a count. The timeline keeps the groups for clicks.

import { groupMarks } from "./model.js";
import { font, glyph, token, toneColor } from "./theme.js";

const NEAR = 15;

export function drawRail({ g, scene, lay, panel, x }) {
  const marks = scene.marks
    .filter((m) => m.at_us >= panel.from && m.at_us <= panel.to)
    .map((m) => ({ ...m, x: x(m.at_us) }));
  panel.groups = groupMarks(marks, NEAR * lay.u);
  const right = panel.kind === "main" ? panel.x + panel.w + 8 : lay.w - 2;
  panel.groups.forEach((group, i) => {
    stems(g, group, lay);
    const nextX = panel.groups[i + 1]?.x ?? right + 10;
    drawGroup(g, lay, group, panel, panel.groups[i - 1]?.x1 ?? panel.x, nextX, right);
  });
}

function stems(g, group, lay) {
  for (const m of group.marks) {
    if (m.glyph === "gap") {
      continue;
    }
    g.strokeStyle = toneColor(m.tone) ?? token("muted");
    g.globalAlpha = 0.55;
    g.lineWidth = 1;
    g.beginPath();
    g.moveTo(Math.round(m.x) + 0.5, lay.top - 6 * lay.u);
    g.lineTo(Math.round(m.x) + 0.5, lay.top + lay.height);
    g.stroke();
    g.globalAlpha = 1;
  }
}

/** The mark that stands for a group: the limit before all, else the first. */
function leader(marks) {
  return marks.find((m) => m.glyph === "limit") ?? marks.find((m) => m.tone === "bad") ?? marks[0];
}

function groupLabel(marks, room) {
  const lead = leader(marks);
  const last = marks.at(-1);
  if (marks.length === 1) {
    return lead.word;
  }
  const long =
    marks.length < 3 || last === lead
      ? `${lead.word} +${marks.length - 1}`
      : `${lead.word} to ${last.word}, ${marks.length}`;
  return room(long) ? long : `+${marks.length - 1}`;
}

function drawGroup(g, lay, group, panel, prevX, nextX, right) {
  const { u } = lay;
  const lead = leader(group.marks);
  g.font = font(0.857, 500);
  const fits = (t) => group.x + 11 * u + g.measureText(t).width < Math.min(nextX - 10 * u, right);
  const label =
    panel.kind === "main" && group.marks.length > 1 && panel.groups.at(-1) === group
      ? ""
      : groupLabel(group.marks, fits);
  const y = 14.5 * u;
  glyph(g, lead.glyph, group.x, y - 0.5 * u, 12 * u, toneColor(lead.tone) ?? token("ink"));
  g.fillStyle = toneColor(lead.tone) ?? token("muted");
  const width = g.measureText(label).width;
  if (fits(label)) {
    g.textAlign = "left";
    g.fillText(label, group.x + 10 * u, y);
  } else if (group.x + 11 * u + width >= right && group.x - 10 * u - width > prevX + 18 * u) {
    g.textAlign = "right";
    g.fillText(label, group.x - 10 * u, y);
  }
}
