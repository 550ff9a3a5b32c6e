// What stands around the views: connection state in the header, notices (server silent, restarted),
// the login gate, the list of keys.

import { fill, h, icon, text } from "../lib/dom.js";
import { clock, dateClockZone, duration, toUs } from "../lib/format.js";
import { on, retryNow, store } from "../lib/store.js";
import { KEY_HELP } from "../plot/keys.js";
import { dialog } from "./actions.js";

export function wireConnection() {
  const el = document.getElementById("conn");
  const dot = h("span", { class: "dot", "aria-hidden": "true" });
  const word = h("span");
  const when = h("span", { class: "lbl" });
  fill(el, dot, h("span", null, word, when));
  const show = () => {
    const c = store.connection;
    dot.className = `dot ${c.state}`;
    text(word, { live: "Live", lost: "No answer", connecting: "Connecting" }[c.state]);
    const age = c.lastAt ? Date.now() - c.lastAt : 0;
    text(
      when,
      c.state === "live" && c.lastAt
        ? `, last update ${age < 1000 ? "just now" : `${duration(Math.floor(age / 1000) * 1000)} ago`}`
        : "",
    );
    notices();
  };
  on("connection", show);
  setInterval(show, 1000);
  show();
}

function notices() {
  const box = document.getElementById("notices");
  const c = store.connection;
  const lost = c.state === "lost" && Date.now() - c.since > 1500;
  const told = (store.info?.notices ?? []).filter((n) => !dismissed(n));
  const key = [lost ? "lost" : store.restartedAt ? "restarted" : "", ...told.map(nameOf)].join(" ");
  if (box.dataset.key !== key) {
    box.dataset.key = key;
    fill(box, lost ? lostNote() : store.restartedAt ? restartedNote() : null, told.map(serverNote));
  }
  const next = box.querySelector(".next");
  if (next) {
    text(
      next,
      `What you see is from then; jobs and their limits go on without it. ${c.retryAt > Date.now() ? `Next try in ${Math.ceil((c.retryAt - Date.now()) / 1000)} s.` : "Trying now."}`,
    );
  }
}

function lostNote() {
  return h(
    "div",
    { class: "note warn", role: "status" },
    icon("warn"),
    h("b", null, `No answer from the server since ${clock(store.connection.since * 1000)}.`),
    h("p", { class: "next" }),
    h("button", { type: "button", class: "btn", onclick: () => retryNow() }, "Try now"),
  );
}

function restartedNote() {
  return h(
    "div",
    { class: "note", role: "status" },
    icon("start"),
    h("b", null, `The server restarted at ${clock(store.restartedAt)}. Your jobs kept running.`),
    h("p", null, "The page has fetched what it missed; nothing is lost."),
    h(
      "button",
      {
        type: "button",
        class: "btn",
        onclick: () => {
          store.restartedAt = null;
          notices();
        },
      },
      "Dismiss",
    ),
  );
}

// A notice of the server stands until its cause is gone; this browser need not see it twice.
const nameOf = (notice) => `notice ${notice.code} ${notice.at}`;

function dismissed(notice) {
  try {
    return localStorage.getItem(nameOf(notice)) !== null;
  } catch {
    return false;
  }
}

const HEADS = { database_rebuilt: "The server found its database damaged and built it anew" };

function serverNote(notice) {
  const dismiss = () => {
    try {
      localStorage.setItem(nameOf(notice), "dismissed");
    } catch {
      // a browser that keeps nothing: gone from this page only
    }
    store.info.notices = store.info.notices.filter((n) => n !== notice);
    notices();
  };
  return h(
    "div",
    { class: "note warn", role: "status" },
    icon("warn"),
    h("b", null, `${HEADS[notice.code] ?? "A notice of the server"}, ${dateClockZone(toUs(notice.at))}.`),
    h("p", null, notice.detail),
    h("button", { type: "button", class: "btn", onclick: dismiss }, "Dismiss"),
  );
}

/** The page without a session. refused: why the link did not work, or "". */
export function gate(refused) {
  const logo = icon("logo", "logo");
  return h(
    "div",
    { class: "panel gate" },
    logo,
    h("h1", null, "This page needs a login link."),
    refused && h("p", { class: "c-bad" }, refused),
    h(
      "p",
      null,
      "Run this in a terminal on the machine that runs Bulkhead, and open the link it prints. A link works once, for 10 minutes.",
    ),
    h("code", { class: "blk1" }, "bulkhead open"),
    h("p", { class: "muted" }, "Jobs and their limits go on without this page."),
  );
}

/** The page when the server did not answer at all. */
export function silent(message, again) {
  return h(
    "div",
    { class: "panel gate" },
    icon("logo", "logo"),
    h("h1", null, "No answer from the server."),
    h("p", null, message),
    h("p", null, "Is bulkheadd running? Jobs and their limits go on without it."),
    h("button", { type: "button", class: "btn primary", onclick: again }, "Try again"),
  );
}

export function wireKeys() {
  document.getElementById("keys").addEventListener("click", () =>
    dialog({
      title: "Keys",
      cls: "keys",
      body: h(
        "div",
        null,
        h("p", { class: "muted" }, "They work inside the part that has the focus."),
        h(
          "div",
          { class: "lists" },
          KEY_HELP.map(([head, list]) =>
            h(
              "section",
              null,
              h("h3", null, head),
              h(
                "dl",
                null,
                list.map(([keys, what]) => [
                  h(
                    "dt",
                    null,
                    keys.map((k) => h("kbd", null, k)),
                  ),
                  h("dd", null, what),
                ]),
              ),
            ),
          ),
        ),
      ),
      buttons: [{ text: "Close", value: null, focus: true }],
    }),
  );
}
