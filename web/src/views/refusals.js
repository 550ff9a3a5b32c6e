// Requests that the server refused lately, below the jobs: who tries what they may not, in words.

import { fill, h, text } from "../lib/dom.js";
import { api } from "../lib/api.js";
import { dateClockZone, plural, toUs, ago } from "../lib/format.js";

const EVERY_MS = 30000;

const WORDS = {
  unauthorized: "without a valid token or login",
  login_refused: "with a login code that is wrong, used or too old",
  wrong_host: "with a Host that is not served here, as a page on another site would send",
  forbidden_origin: "from another site’s page",
  forbidden_uid: "over the socket, by another user",
  forbidden_scope: "with a token that does not allow it",
  csrf_required: "with the page’s cookie but without its write token",
  too_many_requests: "too often",
  too_many_streams: "for more event streams than are kept open",
};

/** "2 requests without a valid token or login". */
export const refusalText = ({ code, count }) =>
  `${plural(count, "request")} ${WORDS[code] ?? `refused as ${code.replaceAll("_", " ")}`}`;

export function refusals() {
  const summary = h("summary");
  const list = h("ul");
  const el = h("details", { class: "panel refusals", hidden: true }, summary, list);
  const load = async () => {
    try {
      const { security } = await api.info();
      el.hidden = !security?.refused_total;
      if (security?.refused_total) {
        text(summary, `${plural(security.refused_total, "request")} refused since the server started`);
        fill(list, security.recent.map(row));
      }
    } catch {
      // the header says already that the server is silent
    }
  };
  const timer = setInterval(load, EVERY_MS);
  load();
  return { el, destroy: () => clearInterval(timer) };
}

function row(refusal) {
  const us = toUs(refusal.at);
  const when = h("time", { datetime: refusal.at, title: dateClockZone(us) }, ago(us, Date.now()));
  return h("li", null, `${refusalText(refusal)}, last `, when);
}
