// The fields of the launch form, as elements. form: see launch.js; its f and errs are filled here.

import { h, icon } from "../lib/dom.js";
import { SIZE_UNITS } from "../lib/input.js";

const PRESETS = {
  plain: { name: "Plain command", signal: "SIGTERM", checkpoint: "" },
  training: { name: "Training script (TERM, saves on SIGUSR1)", signal: "SIGTERM", checkpoint: "SIGUSR1" },
  server: { name: "mlx_lm.server (leaves on SIGINT)", signal: "SIGINT", checkpoint: "" },
};

const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"];

/** A slot below a field where errors appear. */
function errors(form, name, input, details) {
  const el = h("p", { class: "errs", id: `e-${name}`, role: "alert" });
  form.errs[name] = { el, input, details };
  input?.setAttribute("aria-describedby", `${input.getAttribute("aria-describedby") ?? ""} e-${name}`.trim());
  return el;
}

const field = (cls, ...children) => h("div", { class: `field ${cls}` }, children);
const input = (form, key, props) =>
  (form.f[key] = h("input", { autocomplete: "off", spellcheck: "false", ...props }));
const help = (...t) => h("p", { class: "help" }, t);

function commandField(form) {
  return field(
    "wide",
    h("label", { for: "f-argv" }, "Command"),
    form.argv.el,
    errors(form, "command", form.argv.input),
    help(
      "One box per argument; no shell, so ",
      h("code", null, "*"),
      ", ",
      h("code", null, "|"),
      " and ",
      h("code", null, "$HOME"),
      " stay as typed. Enter adds an argument, a pasted line is split.",
    ),
  );
}

function modeField(form) {
  form.f.enforce = h(
    "button",
    { type: "button", "aria-pressed": "true", onclick: () => form.setMode("enforce") },
    "Stop it",
  );
  form.f.observe = h(
    "button",
    { type: "button", "aria-pressed": "false", onclick: () => form.setMode("observe") },
    "Only observe",
  );
  form.f.modeHelp = help();
  return field(
    "",
    h("span", { class: "lab", id: "l-mode" }, "When it reaches the limit"),
    h(
      "div",
      { class: "row" },
      h("span", { class: "seg", role: "group", "aria-labelledby": "l-mode" }, form.f.enforce, form.f.observe),
    ),
    form.f.modeHelp,
  );
}

function limitField(form) {
  const f = form.f;
  input(form, "limit", {
    id: "f-lim",
    size: "6",
    inputmode: "decimal",
    placeholder: "6",
    "aria-describedby": "f-lim-h",
    oninput: () => form.refresh(),
  });
  f.unit = h(
    "select",
    { "aria-label": "Unit", onchange: () => form.refresh() },
    SIZE_UNITS.map((u) => h("option", null, u)),
  );
  f.presets = h("span", { class: "seg", role: "group", "aria-label": "Limits to choose from" });
  f.limitHelp = h("p", { class: "help", id: "f-lim-h" });
  f.limitField = field(
    "",
    h("label", { for: "f-lim" }, "Limit"),
    h("div", { class: "row" }, f.limit, f.unit, f.presets),
    errors(form, "limit", f.limit),
    f.limitHelp,
  );
  return f.limitField;
}

function nameField(form) {
  input(form, "name", { id: "f-name", maxlength: "64", placeholder: "lora-qwen3-4b" });
  return field(
    "",
    h("label", { for: "f-name" }, "Name"),
    form.f.name,
    errors(form, "name", form.f.name),
    help("Optional. Letters, digits, dot, dash, underscore."),
  );
}

function presetField(form) {
  const choose = (e) => {
    const p = PRESETS[e.target.value];
    form.f.signal.value = p.signal;
    form.f.ckptSignal.value = p.checkpoint;
    form.f.more.open ||= p.checkpoint !== "";
    form.refresh();
  };
  form.f.preset = h(
    "select",
    { id: "f-pre", onchange: choose },
    Object.entries(PRESETS).map(([id, p]) => h("option", { value: id }, p.name)),
  );
  return field(
    "",
    h("label", { for: "f-pre" }, "Preset"),
    form.f.preset,
    help("Sets stop signal and checkpoint. Change them under More settings."),
  );
}

function options(form) {
  form.f.record = h("input", { type: "checkbox", checked: true });
  form.f.exit = h("input", { type: "checkbox" });
  return h(
    "div",
    { class: "field wide opts" },
    h("label", null, form.f.record, "Record allocations with Python stacks"),
    h("label", null, form.f.exit, "End it when this server ends"),
  );
}

function more(form) {
  const f = form.f;
  const labelled = (key, label, props, hint, err) => {
    const id = `f-${key}`;
    const el = input(form, key, { id, ...props });
    return field(
      "",
      h("label", { for: id }, label),
      el,
      err && errors(form, err, el, f.more),
      hint && help(hint),
    );
  };
  const area = (key, label, hint, err) => {
    f[key] = h("textarea", { id: `f-${key}`, rows: "3", spellcheck: "false" });
    return field(
      "",
      h("label", { for: `f-${key}` }, label),
      f[key],
      errors(form, err, f[key], f.more),
      help(hint),
    );
  };
  f.signal = h(
    "select",
    { id: "f-signal" },
    SIGNALS.map((s) => h("option", null, s)),
  );
  f.ckptSignal = h(
    "select",
    { id: "f-ckpt" },
    ["", "SIGUSR1", "SIGUSR2"].map((s) => h("option", { value: s }, s || "none")),
  );
  const ckptPath = input(form, "ckptPath", {
    "aria-label": "File or folder the checkpoint appears in",
    placeholder: "adapters/",
  });
  const ckptTimeout = input(form, "ckptTimeout", {
    "aria-label": "Time allowed for the checkpoint",
    placeholder: "30s",
    size: "6",
  });
  const band = (key) =>
    h("label", { class: "band" }, key, input(form, key, { size: "9", placeholder: "default" }));
  f.more = h("details", { class: "wide more" });
  f.more.append(
    h(
      "summary",
      null,
      "More settings ",
      h(
        "span",
        { class: "muted" },
        "bands, wall time, stop signal, grace, checkpoint, folder, environment, labels",
      ),
    ),
    h(
      "div",
      { class: "form inner" },
      field(
        "",
        h("span", { class: "lab" }, "Bands"),
        h("div", { class: "row" }, band("warning"), band("recovery"), band("emergency")),
        errors(form, "bands", f.warning, f.more),
        help("Sizes as 5.4GiB. Left empty: a tenth below and above the limit, calm two tenths below."),
      ),
      labelled(
        "wall",
        "Wall time",
        { placeholder: "2h" },
        "After this it is stopped as at the limit. 90s, 30m, 2h.",
        "wall_time",
      ),
      field(
        "",
        h("label", { for: "f-signal" }, "Stop signal"),
        f.signal,
        errors(form, "stop", f.signal, f.more),
      ),
      labelled(
        "grace",
        "Grace",
        { placeholder: "1s" },
        "Least time between the stop signal and KILL; longer for large jobs, and while memory falls.",
        null,
      ),
      field(
        "",
        h("label", { for: "f-ckpt" }, "Checkpoint on"),
        h("div", { class: "row" }, f.ckptSignal, ckptPath, ckptTimeout),
        errors(form, "checkpoint", ckptPath, f.more),
        help("The signal it saves on, where, and how long it may take."),
      ),
      labelled("cwd", "Folder", { placeholder: "the server’s own" }, "An absolute path.", "cwd"),
      area("env", "Environment", "One NAME=value a line. Values are never shown again.", "env"),
      area("labels", "Labels", "One name=value a line, at most 16.", "labels"),
    ),
  );
  return f.more;
}

export function buildForm(form) {
  const f = form.f;
  const el = h("details", { class: "panel launch" });
  f.submit = h("button", { class: "btn primary", type: "submit" });
  f.note = h("span", { class: "c-warn", role: "status" });
  const submit = (e) => {
    e.preventDefault();
    form.submit();
  };
  el.append(
    h(
      "summary",
      null,
      icon("plus", "plus"),
      h("b", null, "Launch a job"),
      h("span", { class: "muted" }, "a command, a limit, and it is watched from outside"),
    ),
    h(
      "form",
      { class: "form", novalidate: true, "aria-label": "Launch a job", onsubmit: submit },
      commandField(form),
      modeField(form),
      limitField(form),
      nameField(form),
      presetField(form),
      options(form),
      more(form),
      h("div", { class: "foot wide" }, f.submit, f.note, errors(form, "form", null)),
    ),
  );
  return el;
}
