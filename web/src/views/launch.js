// The launch form. It sends what was said and nothing else: no limit is invented, observe is a choice.
// The server's errors[] appear at their field, its warnings[] beside the button.

import { fill, h, icon, text } from "../lib/dom.js";
import { api } from "../lib/api.js";
import { bytes, exact, limit as limitText } from "../lib/format.js";
import { bandsFor, parsePairs, parseSize, SIZE_UNITS, sizeProblem } from "../lib/input.js";
import { putJob, store } from "../lib/store.js";
import { isLive, value } from "../lib/words.js";
import { toast } from "./actions.js";
import { ArgvEditor } from "./argv.js";
import { buildForm } from "./launchfields.js";

class FieldError extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

export function launchForm() {
  return new LaunchForm();
}

class LaunchForm {
  constructor() {
    this.mode = "enforce";
    this.argv = new ArgvEditor("f-argv", () => this.refresh());
    this.f = {};
    this.errs = {};
    this.el = buildForm(this);
    this.refresh();
  }

  open() {
    this.el.open = true;
    this.el.scrollIntoView({ block: "start", behavior: "auto" });
    this.argv.input.focus();
  }

  /** Fills the form with what a job was launched with. What the form does not show, and values of the
   *  environment, the server keeps: it launches the same spec again with these members replaced. */
  async prefill(job) {
    let spec = null;
    try {
      spec = await api.spec(job.id);
    } catch {
      // the job object alone has the main things
    }
    const src = spec ?? job;
    this.source = spec ? { id: job.id, spec } : null;
    this.argv.set(src.command ?? []);
    this.setMode(src.mode);
    if (src.limit_bytes) {
      this.setLimit(src.limit_bytes);
    }
    this.f.cwd.value = spec?.cwd ?? "";
    choose(this.f.signal, spec?.stop?.signal ?? "SIGTERM");
    choose(this.f.ckptSignal, spec?.checkpoint?.signal ?? "");
    this.f.ckptPath.value = spec?.checkpoint?.path ?? "";
    this.f.record.checked = spec?.record?.enabled ?? true;
    this.f.wall.value = spec?.wall_time_ms ? `${spec.wall_time_ms}ms` : "";
    this.f.labels.value = Object.entries(src.labels ?? {})
      .map(([k, v]) => `${k}=${v}`)
      .join("\n");
    const keys = Object.keys(spec?.env ?? {});
    this.note(
      keys.length
        ? `${keys.join(", ")} keep their values unless you set them again under More settings.`
        : "",
    );
    this.open();
    this.refresh();
  }

  setMode(mode) {
    this.mode = mode;
    this.f.enforce.setAttribute("aria-pressed", String(mode === "enforce"));
    this.f.observe.setAttribute("aria-pressed", String(mode === "observe"));
    this.refresh();
  }

  setLimit(n) {
    const [num, unit] = limitText(n).split(" ");
    const known = SIZE_UNITS.includes(unit) && parseSize(num + unit) === n;
    this.f.limit.value = known ? num : (n / 1024 ** 2).toFixed(3).replace(/\.?0+$/, "");
    this.f.unit.value = known ? unit : "MiB";
    this.refresh();
  }

  limitBytes() {
    const number = this.f.limit.value.trim();
    return sizeProblem(number, this.f.unit.value) ? null : parseSize(number + this.f.unit.value);
  }

  /** Echoes what the server would read, and says what the button does. */
  refresh() {
    if (!this.el) {
      return;
    }
    const enforce = this.mode === "enforce";
    this.f.limitField.hidden = !enforce;
    const n = this.limitBytes();
    if (n === null) {
      text(this.f.limitHelp, "A number and a unit, for example 6 GiB.");
    } else {
      const b = bandsFor(n);
      text(
        this.f.limitHelp,
        `${exact(n)} bytes. Warns at ${bytes(b.warning)}, kills at once at ${bytes(b.emergency)}, calm again below ${bytes(b.recovery)}.`,
      );
    }
    text(
      this.f.modeHelp,
      enforce
        ? "Two readings at or above the limit, then a checkpoint if it has one, TERM, and KILL after the grace period."
        : "It is measured and recorded, and never stopped for its memory.",
    );
    text(
      this.f.submit,
      enforce ? (n === null ? "Launch" : `Launch with a ${limitText(n)} limit`) : "Launch and only observe",
    );
    this.presetButtons();
  }

  presetButtons() {
    const total = store.host?.memory_total_bytes ?? 0;
    const sizes = [1, 2, 4, 6, 8, 16, 32, 64]
      .filter((g) => g * 1024 ** 3 <= Math.max(total, 1024 ** 3) * 0.8)
      .slice(-4);
    const list = sizes.map((g) => [`${g} GiB`, g * 1024 ** 3]);
    const peak = this.lastPeak();
    if (peak) {
      list.push([`Last peak ${bytes(peak)}`, Math.ceil(peak / 1024 ** 2) * 1024 ** 2]);
    }
    const key = JSON.stringify([list, this.limitBytes()]);
    if (this.f.presets.dataset.key !== key) {
      this.f.presets.dataset.key = key;
      fill(
        this.f.presets,
        list.map(([label, n]) =>
          h(
            "button",
            {
              type: "button",
              "aria-pressed": String(this.limitBytes() === n),
              onclick: () => this.setLimit(n),
            },
            label,
          ),
        ),
      );
    }
  }

  /** The peak of the last ended job with this very command. */
  lastPeak() {
    const argv = JSON.stringify(this.argv.value());
    const same = [...store.jobs.values()].filter((j) => !isLive(j) && JSON.stringify(j.command) === argv);
    same.sort((a, b) => (a.created_at < b.created_at ? 1 : -1));
    return same.length ? value(same[0].peak_charge) : null;
  }

  note(message, tone = "") {
    fill(this.f.note, message && [icon("warn", tone), " ", message]);
  }

  /** The request's body; throws {field, message} for what cannot be said. */
  body() {
    const f = this.f;
    const out = { command: this.argv.value() };
    const put = (key, v) => {
      if (v !== "" && v !== undefined) {
        out[key] = v;
      }
    };
    if (out.command.length === 0) {
      throw new FieldError("command", "Give a program, for example python3 train.py.");
    }
    put("name", f.name.value.trim());
    if (this.mode === "observe") {
      out.mode = "observe";
    } else {
      const problem = sizeProblem(f.limit.value, f.unit.value);
      if (problem) {
        throw new FieldError("limit", problem);
      }
      out.limit = f.limit.value.trim() + f.unit.value;
      this.putBands(out);
    }
    put("wall_time", f.wall.value.trim());
    put("cwd", f.cwd.value.trim());
    this.putPairs(out, "env", f.env.value);
    this.putPairs(out, "labels", f.labels.value);
    this.putStop(out);
    out.record = f.record.checked ? { enabled: true } : false;
    if (f.exit.checked) {
      out.on_server_exit = "terminate";
    }
    return out;
  }

  putBands(out) {
    const bands = {};
    for (const name of ["warning", "recovery", "emergency"]) {
      const v = this.f[name].value.trim();
      if (v) {
        if (parseSize(v) === null) {
          throw new FieldError("bands", `“${v}” has no unit that is known. Write 5.4GiB.`);
        }
        bands[name] = v;
      }
    }
    if (Object.keys(bands).length) {
      out.bands = bands;
    }
  }

  putPairs(out, key, textValue) {
    try {
      const pairs = parsePairs(textValue);
      if (Object.keys(pairs).length) {
        out[key] = pairs;
      }
    } catch (e) {
      throw new FieldError(key, e.message);
    }
  }

  putStop(out) {
    const f = this.f;
    if (f.signal.value !== "SIGTERM") {
      out.stop = { signal: f.signal.value };
    }
    if (f.grace.value.trim()) {
      out.stop = { ...out.stop, grace: { base: f.grace.value.trim() } };
    }
    if (f.ckptSignal.value) {
      if (!f.ckptPath.value.trim()) {
        throw new FieldError(
          "checkpoint",
          "Say which file or folder the checkpoint appears in, so that it can be verified.",
        );
      }
      out.checkpoint = {
        signal: f.ckptSignal.value,
        path: f.ckptPath.value.trim(),
        timeout: f.ckptTimeout.value.trim() || "30s",
      };
    }
  }

  async submit() {
    this.clearErrors();
    this.argv.commit();
    let body;
    try {
      body = this.body();
    } catch (e) {
      if (!e.field) {
        throw e;
      }
      this.showError(e.field, e.message);
      return;
    }
    this.f.submit.disabled = true;
    try {
      const { source } = this;
      const job = await (source && keepsAll(source.spec, body)
        ? api.relaunch(source.id, body)
        : api.launch(body));
      this.source = null;
      putJob(job);
      this.note((job.warnings ?? []).join(" "), "c-warn");
      toast(`${job.name} was launched.`, { href: `#/jobs/${job.id}/timeline`, text: "Show job" });
      if (!(job.warnings ?? []).length) {
        location.hash = `#/jobs/${job.id}/timeline`;
      }
    } catch (e) {
      this.refused(e);
    } finally {
      this.f.submit.disabled = false;
    }
  }

  refused(e) {
    const errors = e.errors?.length ? e.errors : [{ pointer: "", detail: e.message }];
    for (const err of errors) {
      this.showError(fieldOf(err.pointer, e.code), err.detail);
    }
  }

  clearErrors() {
    for (const [, slot] of Object.entries(this.errs)) {
      slot.el.replaceChildren();
      slot.input?.removeAttribute("aria-invalid");
    }
    this.note("");
  }

  showError(field, message) {
    const slot = this.errs[field] ?? this.errs.form;
    slot.el.append(h("span", { class: "err" }, icon("kill"), h("span", null, message)));
    if (slot.details) {
      slot.details.open = true;
    }
    slot.input?.setAttribute("aria-invalid", "true");
    slot.input?.focus();
  }
}

/** Selects a value, also one that the list does not name. */
function choose(select, value) {
  if (![...select.options].some((o) => o.value === value)) {
    select.append(h("option", { value }, value));
  }
  select.value = value;
}

/** Does the body still say all that the spec said? What was emptied in the form must not come back. */
export function keepsAll(spec, body) {
  const gone = (had, key) => had && !(key in body);
  return !(
    gone(spec.wall_time_ms, "wall_time") ||
    gone(spec.checkpoint, "checkpoint") ||
    gone(Object.keys(spec.labels ?? {}).length > 0, "labels") ||
    (spec.mode !== "observe" && body.mode === "observe")
  );
}

/** Which field a JSON pointer of the body belongs to. */
export function fieldOf(pointer, code = "") {
  const head = (pointer ?? "").split("/")[1] ?? "";
  if (head === "mode") {
    return "limit";
  }
  if (code.startsWith("launch_") && head === "") {
    return "command";
  }
  return head || "form";
}
