/* job_json.h: a spec as a body that gives the same spec again. */
#include <stdio.h>

#include "api/job_json.h"
#include "core/base/json_out.h"
#include "core/base/text.h"

static void duration(struct bh_json *json, const char *key, uint64_t ns)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%lluns", (unsigned long long)ns);
    bh_json_string(json, key, text);
}

static void pairs(struct bh_json *json, const char *key, const struct bh_text_pair *list,
                  size_t count)
{
    bh_json_object(json, key);
    for (size_t i = 0; i < count; i++)
        bh_json_string(json, list[i].key, list[i].value);
    bh_json_end(json);
}

static void write_policy(struct bh_json *json, const struct bh_job_spec *spec)
{
    bh_json_string(json, "mode", bh_mode_text((int)spec->mode));
    if (spec->limit_bytes)
        bh_json_u64(json, "limit", spec->limit_bytes);
    if (spec->limit_bytes && spec->bands_given) {
        bh_json_object(json, "bands");
        bh_json_u64(json, "warning", spec->warning_bytes);
        bh_json_u64(json, "recovery", spec->recovery_bytes);
        bh_json_u64(json, "emergency", spec->emergency_bytes);
        bh_json_end(json);
    }
    bh_json_bool(json, "brake", spec->brake);
    bh_json_bool(json, "force", spec->force);
    if (spec->wall_time_ns)
        duration(json, "wall_time", spec->wall_time_ns);
    duration(json, "sample_interval", spec->interval_ns);
    duration(json, "min_sample_interval", spec->min_interval_ns);
    bh_json_u64(json, "max_unusable", spec->max_unusable);
    bh_json_object(json, "breach");
    bh_json_u64(json, "count", spec->breach_count);
    duration(json, "hold", spec->breach_hold_ns);
    bh_json_end(json);
}

static void write_stop(struct bh_json *json, const struct bh_job_spec *spec)
{
    char name[16];
    bh_json_object(json, "stop");
    bh_json_string(json, "signal", bh_text_signal_name(spec->stop_signal, name, sizeof name));
    bh_json_object(json, "grace");
    duration(json, "base", spec->grace_base_ns);
    duration(json, "per_gib", spec->grace_per_gib_ns);
    duration(json, "max", spec->grace_max_ns);
    bh_json_end(json);
    bh_json_string(json, "emergency_action",
                   spec->emergency_action == BH_EMERGENCY_TERM ? "term" : "kill");
    duration(json, "kill_retry", spec->kill_retry_ns);
    duration(json, "kill_wait", spec->kill_wait_ns);
    bh_json_end(json);
}

static void write_checkpoint(struct bh_json *json, const struct bh_job_spec *spec)
{
    char name[16];
    if (spec->checkpoint_kind == BH_CHECKPOINT_NONE)
        return;
    bh_json_object(json, "checkpoint");
    if (spec->checkpoint_kind == BH_CHECKPOINT_PROTOCOL) {
        bh_json_string(json, "protocol", "mgcp");
    } else {
        bh_json_string(json, "signal",
                       bh_text_signal_name(spec->checkpoint_signal, name, sizeof name));
        bh_json_string(json, "path", spec->checkpoint_path);
        bh_json_string(json, "process", spec->checkpoint_process_python ? "python" : "root");
    }
    duration(json, "timeout", spec->checkpoint_timeout_ns);
    bh_json_bool(json, "repeat", spec->checkpoint_repeat);
    bh_json_end(json);
}

static void write_record(struct bh_json *json, const struct bh_job_spec *spec)
{
    static const char *const stacks[] = {"none", "python", "all"};
    bh_json_object(json, "record");
    bh_json_bool(json, "enabled", spec->record);
    bh_json_u64(json, "max_entries", spec->max_entries);
    bh_json_u64(json, "min_size", spec->min_size_bytes);
    bh_json_u64(json, "trace_max_bytes", spec->trace_max_bytes);
    bh_json_string(json, "stacks", stacks[(unsigned)spec->stacks % 3]);
    bh_json_u64(json, "depth", spec->depth);
    bh_json_end(json);
}

void bh_job_json_write(const struct bh_job_spec *spec, struct bh_bytes *ret_body)
{
    struct bh_json json;
    bh_json_begin(&json, ret_body, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_array(&json, "command");
    for (size_t i = 0; i < spec->argc; i++)
        bh_json_string(&json, NULL, spec->argv[i]);
    bh_json_end(&json);
    if (spec->name)
        bh_json_string(&json, "name", spec->name);
    if (spec->cwd)
        bh_json_string(&json, "cwd", spec->cwd);
    pairs(&json, "env", spec->env, spec->env_count);
    bh_json_bool(&json, "clear_env", spec->clear_env);
    write_policy(&json, spec);
    write_stop(&json, spec);
    write_checkpoint(&json, spec);
    write_record(&json, spec);
    pairs(&json, "labels", spec->labels, spec->label_count);
    bh_json_string(&json, "on_server_exit", spec->end_with_server ? "terminate" : "keep");
    /* the owner is not repeated: it belonged to the first launch */
    bh_json_end(&json);
    bh_json_finish(&json);
}
