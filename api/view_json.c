#include "api/view_json.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/model/policy.h"

void bh_view_observed(struct bh_json *json, const char *key, struct bh_observed value,
                      const char *reason)
{
    bh_json_object(json, key);
    switch (value.status) {
    case BH_VALUE_UNKNOWN:
        bh_json_string(json, "status", "unknown");
        break;
    case BH_VALUE_AVAILABLE:
        bh_json_string(json, "status", "available");
        bh_json_u64(json, "value", value.value);
        break;
    case BH_VALUE_UNAVAILABLE:
        bh_json_string(json, "status", "unavailable");
        bh_json_string(json, "reason", reason && *reason ? reason : "not observed");
        break;
    case BH_VALUE_STALE:
        bh_json_string(json, "status", "stale");
        bh_json_u64(json, "value", value.value);
        break;
    case BH_VALUE_ERROR:
        bh_json_string(json, "status", "error");
        bh_json_string(json, "code", "read_failed");
        break;
    }
    bh_json_end(json);
}

void bh_view_time(struct bh_json *json, const char *key, struct bh_wall at)
{
    char text[BH_CLOCK_RFC3339_SIZE];
    if (at.us == 0) {
        bh_json_null(json, key);
        return;
    }
    bh_clock_rfc3339(at, text);
    bh_json_string(json, key, text);
}

static void epoch_or_null(struct bh_json *json, const char *key, struct bh_wall at)
{
    if (at.us)
        bh_json_i64(json, key, at.us);
    else
        bh_json_null(json, key);
}

static void bands(struct bh_json *json, uint64_t recovery, uint64_t warning, uint64_t emergency,
                  bool none)
{
    if (none) {
        bh_json_null(json, "bands");
        return;
    }
    bh_json_object(json, "bands");
    bh_json_u64(json, "recovery_bytes", recovery);
    bh_json_u64(json, "warning_bytes", warning);
    bh_json_u64(json, "emergency_bytes", emergency);
    bh_json_end(json);
}

static void limit_or_null(struct bh_json *json, uint64_t limit_bytes)
{
    if (limit_bytes)
        bh_json_u64(json, "limit_bytes", limit_bytes);
    else
        bh_json_null(json, "limit_bytes");
}

static void ms_or_null(struct bh_json *json, const char *key, uint64_t ns)
{
    if (ns)
        bh_json_u64(json, key, ns / BH_NS_PER_MS);
    else
        bh_json_null(json, key);
}

static void command(struct bh_json *json, const struct bh_job_spec *spec)
{
    bh_json_array(json, "command");
    for (size_t i = 0; i < spec->argc; i++)
        bh_json_string(json, NULL, spec->argv[i]);
    bh_json_end(json);
}

static void pairs(struct bh_json *json, const char *key, const struct bh_text_pair *list,
                  size_t count, bool redact)
{
    bh_json_object(json, key);
    for (size_t i = 0; i < count; i++)
        bh_json_string(json, list[i].key, redact ? "redacted" : list[i].value);
    bh_json_end(json);
}

static void identity(struct bh_json *json, const struct bh_job_view *view)
{
    bh_json_string(json, "id", view->id);
    /* a job without a name is called by its id, so that lists always have something to show */
    bh_json_string(json, "name", view->spec->name ? view->spec->name : view->id);
    bh_json_string(json, "state", bh_job_state_text((int)view->state));
    bh_json_string(json, "policy_state",
                   bh_policy_state_name((enum bh_policy_state_id)view->policy_state));
    bh_json_string(json, "mode", bh_mode_text((int)view->mode));
    bh_json_string(json, "boundary",
                   bh_boundary_text(view->boundary ? (int)view->boundary : BH_BOUNDARY_SAMPLED));
    command(json, view->spec);
    bh_view_time(json, "created_at", view->created_at);
    bh_view_time(json, "started_at", view->started_at);
    bh_view_time(json, "ended_at", view->ended_at);
    if (view->anchor.wall.us && view->started_at.us) {
        bh_json_object(json, "anchor");
        bh_json_u64(json, "boottime_ns", view->anchor.mono.ns);
        bh_json_i64(json, "epoch_us", view->anchor.wall.us);
        bh_json_end(json);
    } else {
        bh_json_null(json, "anchor");
    }
    if (view->root_pid)
        bh_json_i64(json, "root_pid", view->root_pid);
    else
        bh_json_null(json, "root_pid");
    bh_json_u64(json, "members", view->members);
}

static void peak(struct bh_json *json, const struct bh_job_view *view)
{
    struct bh_observed value = view->peak_charge;
    if (value.status != BH_VALUE_AVAILABLE || !view->peak_at.us) {
        bh_view_observed(json, "peak_charge", value, NULL);
        return;
    }
    bh_json_object(json, "peak_charge");
    bh_json_string(json, "status", "available");
    bh_json_u64(json, "value", value.value);
    bh_json_i64(json, "at_us", view->peak_at.us);
    bh_json_end(json);
}

static void memory(struct bh_json *json, const struct bh_job_view *view)
{
    const char *reason = view->recorder_reason;
    limit_or_null(json, view->limit_bytes);
    bands(json, view->recovery_bytes, view->warning_bytes, view->emergency_bytes,
          view->limit_bytes == 0);
    bh_json_u64(json, "limits_revision", view->limits_revision ? view->limits_revision : 1);
    ms_or_null(json, "wall_time_ms", view->spec->wall_time_ns);
    bh_json_u64(json, "sample_interval_ms", view->spec->interval_ns / BH_NS_PER_MS);
    bh_view_observed(json, "charge", view->charge, NULL);
    peak(json, view);
    bh_view_observed(json, "active", view->active, reason);
    bh_view_observed(json, "reserved", view->reserved, reason);
    bh_json_object(json, "recorder");
    bh_json_string(json, "state", bh_recorder_state_text((int)view->recorder));
    bh_json_string(json, "reason", reason && *reason ? reason : NULL);
    bh_json_u64(json, "events", view->events);
    bh_json_u64(json, "lost", view->lost);
    bh_json_end(json);
}

/* `ready` is the supervisor's inner word: the channel exists and nothing was asked for yet. */
static const char *checkpoint_status(enum bh_checkpoint_word word)
{
    return bh_checkpoint_word_text(word == BH_CKPT_READY ? BH_CKPT_NOT_NEGOTIATED : (int)word);
}

static const char *checkpoint_method(const struct bh_job_spec *spec)
{
    switch (spec->checkpoint_kind) {
    case BH_CHECKPOINT_NONE:
        return "none";
    case BH_CHECKPOINT_PROTOCOL:
        return "mgcp";
    case BH_CHECKPOINT_SIGNAL:
        return "signal";
    }
    return "none";
}

static void bytes_or_null(struct bh_json *json, const char *key, struct bh_observed value)
{
    if (value.status == BH_VALUE_AVAILABLE)
        bh_json_u64(json, key, value.value);
    else
        bh_json_null(json, key);
}

static void checkpoint(struct bh_json *json, const struct bh_job_view *view)
{
    bh_json_object(json, "checkpoint");
    bh_json_string(json, "method", checkpoint_method(view->spec));
    bh_json_string(json, "status", checkpoint_status(view->checkpoint));
    epoch_or_null(json, "at_us", view->checkpoint_at);
    bytes_or_null(json, "size_bytes", view->checkpoint_bytes);
    bh_json_end(json);
}

static void signal_or_null(struct bh_json *json, int signal)
{
    char name[16];
    bh_json_string(json, "signal",
                   signal > 0 ? bh_text_signal_name(signal, name, sizeof name) : NULL);
}

static void outcome(struct bh_json *json, const struct bh_job_view *view)
{
    if (view->outcome == BH_OUTCOME_NONE) {
        bh_json_null(json, "outcome");
        return;
    }
    bh_json_object(json, "outcome");
    bh_json_string(json, "kind", bh_outcome_text((int)view->outcome));
    bh_json_string(json, "cause", bh_cause_text((int)view->cause));
    bh_json_string(json, "sentence", view->sentence ? view->sentence : "");
    if (view->exit_code >= 0 && view->signal <= 0)
        bh_json_i64(json, "exit_code", view->exit_code);
    else
        bh_json_null(json, "exit_code");
    signal_or_null(json, view->signal);
    epoch_or_null(json, "at_us", view->ended_at);
    bh_json_end(json);
}

static void links(struct bh_json *json, const char *id)
{
    static const char *const names[][2] = {
        {"self", ""},
        {"spec", "/spec"},
        {"report", "/report"},
        {"memory", "/memory.pickle"},
        {"timeline", "/timeline"},
        {"live", "/live"},
        {"events", "/events"},
        {"logs", "/logs"},
    };
    char path[64];
    bh_json_object(json, "links");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "/v1/jobs/%s%s", id, names[i][1]);
        bh_json_string(json, names[i][0], path);
    }
    bh_json_end(json);
}

void bh_view_job(struct bh_json *json, const char *key, const struct bh_job_view *view)
{
    bh_json_object(json, key);
    identity(json, view);
    memory(json, view);
    checkpoint(json, view);
    bh_json_array(json, "waiting_for");
    for (size_t i = 0; i < view->waiting_count; i++) {
        bh_json_object(json, NULL);
        bh_json_i64(json, "pid", view->waiting[i].pid);
        bh_json_string(json, "executable_basename", view->waiting[i].basename);
        bh_json_end(json);
    }
    bh_json_end(json);
    outcome(json, view);
    pairs(json, "labels", view->spec->labels, view->spec->label_count, false);
    bh_json_array(json, "warnings");
    for (size_t i = 0; i < view->warning_count; i++)
        bh_json_string(json, NULL, view->warnings[i]);
    bh_json_end(json);
    links(json, view->id);
    if (view->spec->relaunch_of)
        bh_json_string(json, "relaunch_of", view->spec->relaunch_of);
    bh_json_u64(json, "event_sequence", view->event_sequence);
    bh_json_end(json);
}

void bh_view_job_document(const struct bh_job_view *view, struct bh_bytes *ret_body)
{
    struct bh_json json;
    bh_json_begin(&json, ret_body, BH_JSON_COMPACT);
    bh_view_job(&json, NULL, view);
    bh_json_finish(&json);
}

/* ---- spec --------------------------------------------------------------------------------------
 */

static void spec_checkpoint(struct bh_json *json, const struct bh_job_spec *spec)
{
    char name[16];
    if (spec->checkpoint_kind == BH_CHECKPOINT_NONE) {
        bh_json_null(json, "checkpoint");
        return;
    }
    bool by_signal = spec->checkpoint_kind == BH_CHECKPOINT_SIGNAL;
    bh_json_object(json, "checkpoint");
    bh_json_string(json, "protocol", by_signal ? NULL : "mgcp");
    bh_json_string(json, "signal",
                   by_signal ? bh_text_signal_name(spec->checkpoint_signal, name, sizeof name)
                             : NULL);
    bh_json_string(json, "path", by_signal ? spec->checkpoint_path : NULL);
    bh_json_u64(json, "timeout_ms", spec->checkpoint_timeout_ns / BH_NS_PER_MS);
    bh_json_bool(json, "repeat", spec->checkpoint_repeat);
    bh_json_end(json);
}

static void spec_stop(struct bh_json *json, const struct bh_job_spec *spec)
{
    char name[16];
    bh_json_object(json, "stop");
    bh_json_string(json, "signal", bh_text_signal_name(spec->stop_signal, name, sizeof name));
    bh_json_object(json, "grace");
    bh_json_u64(json, "base_ms", spec->grace_base_ns / BH_NS_PER_MS);
    bh_json_u64(json, "per_gib_ms", spec->grace_per_gib_ns / BH_NS_PER_MS);
    bh_json_u64(json, "max_ms", spec->grace_max_ns / BH_NS_PER_MS);
    bh_json_end(json);
    bh_json_string(json, "emergency_action",
                   spec->emergency_action == BH_EMERGENCY_TERM ? "term" : "kill");
    bh_json_end(json);
}

static void spec_record(struct bh_json *json, const struct bh_job_spec *spec)
{
    static const char *const stacks[] = {"none", "python", "all"};
    bh_json_object(json, "record");
    bh_json_bool(json, "enabled", spec->record);
    bh_json_u64(json, "max_entries", spec->max_entries);
    bh_json_u64(json, "min_size_bytes", spec->min_size_bytes);
    bh_json_string(json, "stacks", stacks[(unsigned)spec->stacks % 3]);
    bh_json_u64(json, "depth", spec->depth);
    bh_json_end(json);
}

static void spec_owner(struct bh_json *json, const struct bh_job_spec *spec)
{
    bh_json_string(json, "on_server_exit", spec->end_with_server ? "terminate" : "keep");
    if (spec->owner_pid) {
        bh_json_object(json, "owner");
        bh_json_i64(json, "pid", spec->owner_pid);
        bh_json_end(json);
    } else {
        bh_json_null(json, "owner");
    }
    bh_json_string(json, "on_owner_exit", spec->stop_with_owner ? "stop" : "keep");
}

void bh_view_spec_document(const struct bh_job_spec *spec, struct bh_bytes *ret_body)
{
    struct bh_json json;
    bh_json_begin(&json, ret_body, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    command(&json, spec);
    bh_json_string(&json, "name", spec->name ? spec->name : spec->id);
    bh_json_string(&json, "cwd", spec->cwd);
    pairs(&json, "env", spec->env, spec->env_count, true);
    bh_json_bool(&json, "clear_env", spec->clear_env);
    bh_json_string(&json, "mode", bh_mode_text((int)spec->mode));
    limit_or_null(&json, spec->limit_bytes);
    bands(&json, spec->recovery_bytes, spec->warning_bytes, spec->emergency_bytes,
          spec->limit_bytes == 0);
    bh_json_bool(&json, "brake", spec->brake);
    ms_or_null(&json, "wall_time_ms", spec->wall_time_ns);
    bh_json_u64(&json, "sample_interval_ms", spec->interval_ns / BH_NS_PER_MS);
    bh_json_object(&json, "breach");
    bh_json_u64(&json, "count", spec->breach_count);
    bh_json_u64(&json, "hold_ms", spec->breach_hold_ns / BH_NS_PER_MS);
    bh_json_end(&json);
    spec_checkpoint(&json, spec);
    spec_stop(&json, spec);
    spec_record(&json, spec);
    pairs(&json, "labels", spec->labels, spec->label_count, false);
    spec_owner(&json, spec);
    bh_json_bool(&json, "external", spec->external);
    bh_json_end(&json);
    bh_json_finish(&json);
}
