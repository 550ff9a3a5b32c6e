// The page: log in by the link's fragment, fetch, follow, and show the view that the address names.
// Routes: #/jobs, #/launch, #/jobs/ID/(timeline|allocations|report|logs)?from&to&at

import { api, NoAnswer } from "./lib/api.js";
import { connect, keepHost, on, store } from "./lib/store.js";
import { forgetTokens } from "./plot/theme.js";
import { gate, silent, wireConnection, wireKeys } from "./views/frame.js";
import { jobsView, noteCharge } from "./views/jobs.js";
import { JobView } from "./views/jobview.js";

const main = document.getElementById("main");
let view = null;
let key = "";
let relaunch = null;

function show(el) {
  main.replaceChildren(el);
}

function parse() {
  const [path, q = ""] = location.hash.slice(1).split("?");
  const parts = path.split("/").filter(Boolean);
  const params = Object.fromEntries(new URLSearchParams(q));
  if (parts[0] === "jobs" && parts[1]) {
    const tab = ["timeline", "allocations", "report", "logs"].includes(parts[2]) ? parts[2] : "timeline";
    return { name: "job", id: decodeURIComponent(parts[1]), tab, params };
  }
  return { name: "jobs", form: parts[0] === "launch" };
}

const nav = {
  relaunch(job) {
    relaunch = job;
    location.hash = "#/launch";
  },
  replace: (hash) => keepKey(() => history.replaceState(null, "", hash)),
  push: (hash) => keepKey(() => history.pushState(null, "", hash)),
};

/** The view itself changed the address: it is shown already. */
function keepKey(change) {
  change();
  key = location.hash;
}

function route() {
  if (location.hash.startsWith("#code=")) {
    start();
    return;
  }
  if (!store.loaded || (location.hash === key && view)) {
    return;
  }
  key = location.hash;
  view?.destroy();
  const to = parse();
  document.title = "Bulkhead";
  if (to.name === "job") {
    view = new JobView(to.id, to.tab, to.params, nav);
  } else {
    view = jobsView({ openForm: to.form });
    if (relaunch) {
      view.form.prefill(relaunch);
      relaunch = null;
    }
  }
  show(view.el);
  view.redraw();
  scrollTo(0, 0);
}

function denied(why = "") {
  view?.destroy();
  view = null;
  key = "";
  store.loaded = false;
  document.body.classList.add("gated");
  show(gate(why));
}

/** The code of the link is used once and leaves the address at once. */
async function login() {
  const match = /^#code=([^&]+)/.exec(location.hash);
  if (!match) {
    return "";
  }
  history.replaceState(null, "", "#/jobs");
  try {
    await api.login(decodeURIComponent(match[1]));
    return "";
  } catch (e) {
    if (e instanceof NoAnswer) {
      throw e;
    }
    return e.status === 429 ? e.message : "This link was used already, or is older than 10 minutes.";
  }
}

async function start() {
  let refused = "";
  try {
    refused = await login();
    await connect(denied);
    document.body.classList.remove("gated");
  } catch (e) {
    if (e.status === 401) {
      denied(refused);
    } else {
      show(silent(e.message, start));
    }
    return;
  }
  key = "";
  route();
}

function redraw() {
  forgetTokens();
  view?.redraw();
}

on("sample", noteCharge);
wireConnection();
wireKeys();
keepHost();
addEventListener("hashchange", route);
addEventListener("popstate", route);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
matchMedia("(forced-colors: active)").addEventListener("change", redraw);
start();
