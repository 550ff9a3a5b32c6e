// Stop, kill, checkpoint, remove: dialogs that name the job and what is at stake, toasts, and the
// buttons that open them. A button's glyph is the marker it will leave.

import { append, fill, h, icon } from "../lib/dom.js";
import { api, canWrite } from "../lib/api.js";
import { ago, bytes, duration, GiB } from "../lib/format.js";
import { dropJob, putJob } from "../lib/store.js";
import { checkpointLine, isExternal, isLive, value } from "../lib/words.js";

const TOAST_MS = 6000;

export function toast(message, link) {
  const el = h(
    "div",
    { class: "toast" },
    h("span", null, message),
    link && h("a", { href: link.href }, link.text),
  );
  document.getElementById("toasts").append(el);
  setTimeout(() => el.remove(), TOAST_MS);
}

const NO_WRITE =
  "This tab may only look: its login was in another tab. For a tab that may act, run bulkhead open and use the link here.";

/** A modal dialog; resolves with the value of the button pressed, null on Escape. */
export function dialog({ title, body, buttons, cls = "" }) {
  return new Promise((resolve) => {
    const foot = h("div", { class: "foot" });
    const el = h(
      "dialog",
      { class: `dlg ${cls}`, "aria-labelledby": "dlg-title" },
      h("h2", { id: "dlg-title" }, title),
      body,
      foot,
    );
    let answer = null;
    for (const b of buttons) {
      foot.append(
        h(
          "button",
          {
            type: "button",
            class: `btn ${b.cls ?? ""}`,
            autofocus: b.focus,
            onclick: () => {
              answer = b.value;
              el.close();
            },
          },
          b.text,
        ),
      );
    }
    el.addEventListener("close", () => {
      el.remove();
      resolve(answer);
    });
    document.body.append(el);
    el.showModal();
  });
}

const agoText = (job) => (job.checkpoint?.at_us ? ago(job.checkpoint.at_us, Date.now()) : "");
const hasCheckpoint = (job) => job.checkpoint && job.checkpoint.method !== "none";

/** Runs a request; a refusal is shown as a dialog that stays until it is read. */
async function attempt(what, request) {
  try {
    return await request();
  } catch (e) {
    await dialog({
      title: what,
      cls: "bad",
      body: h("p", null, e.status === 403 && e.code === "csrf_required" ? NO_WRITE : e.message),
      buttons: [{ text: "Close", value: null, focus: true }],
    });
    return null;
  }
}

/** What a stop will do, in words; the spec says how long. Without it the order alone. */
export function stopWords(job, spec) {
  const signal = (spec?.stop?.signal ?? "its stop signal").replace(/^SIG/, "");
  const g = spec?.stop?.grace;
  const held = (value(job.charge) ?? 0) / GiB;
  const grace = g ? duration(Math.min(g.max_ms, g.base_ms + g.per_gib_ms * held)) : "its grace period";
  const leave = g ? `${grace} to leave, longer while memory falls` : grace;
  const ask = spec?.checkpoint?.timeout_ms ? ` (up to ${duration(spec.checkpoint.timeout_ms)})` : "";
  const then = `gets ${signal} and ${leave}, then KILL.`;
  return hasCheckpoint(job) ? `It is asked for a checkpoint first${ask}, then ${then}` : `It ${then}`;
}

async function askStop(job) {
  const spec = await api.spec(job.id).catch(() => null);
  const first = h("input", { type: "checkbox", checked: true });
  const body = h(
    "div",
    null,
    h("p", null, stopWords(job, spec)),
    h("p", { class: "muted" }, checkpointLine(job, agoText(job))),
    hasCheckpoint(job) && h("p", null, h("label", null, first, "Checkpoint first")),
  );
  const answer = await dialog({
    title: `Stop ${job.name}?`,
    body,
    buttons: [
      { text: "Keep it running", value: null, focus: true },
      { text: `Stop ${job.name}`, value: "stop", cls: "primary" },
    ],
  });
  if (answer === "stop") {
    const got = await attempt(`${job.name} was not stopped`, () =>
      api.stop(job.id, hasCheckpoint(job) && first.checked ? { checkpoint: true } : {}),
    );
    if (got) {
      putJob(got);
      toast(`${job.name} is being stopped.`, { href: `#/jobs/${job.id}/timeline`, text: "Show job" });
    }
  }
}

async function askKill(job) {
  const held = value(job.charge);
  const members = job.members > 1 ? `all ${job.members} processes` : "its process";
  const lost = job.checkpoint?.at_us
    ? `work since the last checkpoint, ${agoText(job)}, is lost.`
    : "unsaved work is lost.";
  const body = h(
    "div",
    null,
    h(
      "p",
      null,
      `KILL ends ${members} at once. `,
      h("b", { class: "c-bad" }, `No checkpoint is taken; ${lost}`),
    ),
    h(
      "p",
      { class: "muted" },
      held === null ? "" : `It holds ${bytes(held)}. `,
      "Stop frees memory more safely.",
    ),
  );
  const answer = await dialog({
    title: `Kill ${job.name} now?`,
    body,
    buttons: [
      { text: "Keep it running", value: null, focus: true },
      job.state !== "stopping" && { text: "Stop instead", value: "stop" },
      { text: `Kill ${job.name}`, value: "kill", cls: "solid-danger" },
    ].filter(Boolean),
  });
  if (answer === "stop") {
    await askStop(job);
  } else if (answer === "kill") {
    const got = await attempt(`${job.name} was not killed`, () => api.kill(job.id));
    if (got) {
      putJob(got);
      toast(`${job.name} is being killed.`, { href: `#/jobs/${job.id}/timeline`, text: "Show job" });
    }
  }
}

async function doCheckpoint(job) {
  const got = await attempt(`No checkpoint was asked of ${job.name}`, () => api.checkpoint(job.id));
  if (got) {
    putJob(got);
    toast(`${job.name} was asked for a checkpoint.`, { href: `#/jobs/${job.id}/timeline`, text: "Show job" });
  }
}

export async function askRemove(job) {
  const answer = await dialog({
    title: `Remove ${job.name}?`,
    body: h(
      "p",
      null,
      "Its report, its trace and its output are deleted from this machine. Download first what you want to keep.",
    ),
    buttons: [
      { text: "Keep it", value: null, focus: true },
      { text: `Remove ${job.name}`, value: "yes", cls: "solid-danger" },
    ],
  });
  if (answer === "yes" && (await attempt(`${job.name} was not removed`, () => api.remove(job.id)))) {
    dropJob(job.id);
    toast(`${job.name} was removed.`);
    location.hash = "#/jobs";
  }
}

const button = (glyph, label, job, act, small, tone = "") =>
  h(
    "button",
    {
      type: "button",
      class: small ? `btn quiet ico ${tone}` : `btn ${tone}`,
      title: small ? label : null,
      "aria-label": `${label.replace("…", "")} ${job.name}`,
      onclick: (e) => {
        e.stopPropagation();
        act(job);
      },
    },
    icon(glyph),
    h("span", null, label),
  );

/** Which buttons a job has now. */
function actionsOf(job) {
  if (!isLive(job) || isExternal(job) || !canWrite()) {
    return [];
  }
  const stopping = job.state === "stopping";
  return [!stopping && hasCheckpoint(job) && "ckpt", !stopping && "stop", "kill"].filter(Boolean);
}

const MAKE = {
  ckpt: (get, job, small) => button("ckpt", "Checkpoint", job, () => doCheckpoint(get()), small),
  stop: (get, job, small) => button("term", "Stop…", job, () => askStop(get()), small),
  kill: (get, job, small) => button("kill", "Kill…", job, () => askKill(get()), small, "danger-glyph"),
};

/** Fills el with the job's buttons; only when which ones are needed has changed. */
export function actionButtons(el, get, small, extra = []) {
  const job = get();
  const names = actionsOf(job);
  const key = names.join();
  if (el.dataset.key !== key) {
    el.dataset.key = key;
    fill(
      el,
      names.map((n) => MAKE[n](get, job, small)),
    );
    append(el, extra);
  }
}

export const keyAction = { c: doCheckpoint, s: askStop, k: askKill };
