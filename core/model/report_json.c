#include "core/model/report_json.h"

#include "core/base/text.h"

/* ---- helpers ---- */

uint64_t bh_report_ms(const struct bh_report *report, struct bh_mono at)
{
    struct bh_mono zero = report->has_launched ? report->launched_at : report->first_at;
    return at.ns > zero.ns ? (at.ns - zero.ns) / BH_NS_PER_MS : 0;
}

void bh_report_json_observed(struct bh_json *json, const char *key, struct bh_observed observed,
                             const struct bh_report *report, struct bh_mono seen_at)
{
    bh_json_object(json, key);
    switch (observed.status) {
    case BH_VALUE_AVAILABLE:
        bh_json_string(json, "status", "available");
        bh_json_u64(json, "value", observed.value);
        break;
    case BH_VALUE_UNAVAILABLE:
        bh_json_string(json, "status", "unavailable");
        bh_json_string(json, "reason", "not measurable on this host");
        break;
    case BH_VALUE_STALE:
        bh_json_string(json, "status", "stale");
        bh_json_u64(json, "value", observed.value);
        bh_json_u64(json, "last_seen_at_ms", bh_report_ms(report, seen_at));
        break;
    case BH_VALUE_ERROR:
        bh_json_string(json, "status", "error");
        bh_json_string(json, "code",
                       bh_err_code(observed.value < 1000 ? -(int)observed.value : BH_E_IO));
        break;
    case BH_VALUE_UNKNOWN:
        bh_json_string(json, "status", "unknown");
        break;
    }
    bh_json_end(json);
}

void bh_report_json_known(struct bh_json *json, const char *key, bool known, uint64_t value)
{
    bh_json_object(json, key);
    bh_json_string(json, "status", known ? "available" : "unknown");
    if (known)
        bh_json_u64(json, "value", value);
    bh_json_end(json);
}

void bh_report_json_signal(struct bh_json *json, const char *key, int signal)
{
    char buffer[16];
    bh_json_string(json, key,
                   signal > 0 ? bh_text_signal_name(signal, buffer, sizeof buffer) : NULL);
}

void bh_report_json_ms_or_null(struct bh_json *json, const char *key, uint64_t ns)
{
    if (ns == 0)
        bh_json_null(json, key);
    else
        bh_json_u64(json, key, ns / BH_NS_PER_MS);
}

void bh_report_json_text_or_null(struct bh_json *json, const char *key, const char *text)
{
    bh_json_string(json, key, text[0] ? text : NULL);
}

/* ---- head, host, configuration ---- */

static void render_run(const struct bh_report *report, struct bh_json *json)
{
    struct bh_wall started =
        report->has_launched
            ? report->launched.started_at
            : (struct bh_wall){bh_clock_epoch_us(report->anchor, report->first_at)};
    char text[BH_CLOCK_RFC3339_SIZE];
    bh_clock_rfc3339(started, text);
    bh_json_object(json, "run");
    bh_json_string(json, "run_id", report->run_id);
    bh_json_string(json, "executable_basename", report->config.executable);
    bh_json_u64(json, "argument_count", report->config.argument_count);
    bh_report_json_text_or_null(json, "correlation_hash", report->config.correlation);
    bh_json_string(json, "started_at", text);
    bh_json_end(json);
}

static void render_host(const struct bh_report *report, struct bh_json *json)
{
    const struct bh_record_host *host = &report->host;
    bh_json_object(json, "host");
    bh_report_json_text_or_null(json, "os", host->os);
    bh_report_json_text_or_null(json, "kernel", host->kernel);
    bh_report_json_text_or_null(json, "machine", host->machine);
    bh_json_u64(json, "page_size_bytes", host->page_bytes);
    bh_json_u64(json, "memory_bytes", host->memory_bytes);
    if (host->outer_limit_bytes)
        bh_json_u64(json, "outer_limit_bytes", host->outer_limit_bytes);
    else
        bh_json_null(json, "outer_limit_bytes");
    bh_json_string(json, "boundary", bh_boundary_text((int)host->boundary));
    bh_report_json_text_or_null(json, "boundary_mechanism", host->mechanism);
    bh_report_json_text_or_null(json, "footprint_metric", host->metric);
    bh_report_json_text_or_null(json, "footprint_note", host->metric_note);
    bh_json_bool(json, "runtime_on_disk", host->runtime_on_disk);
    bh_json_end(json);
}

static void render_capabilities(const struct bh_report *report, struct bh_json *json)
{
    const struct bh_record_host *host = &report->host;
    bh_json_object(json, "capabilities");
    bh_json_bool(json, "footprint", host->metric[0] != '\0');
    bh_json_bool(json, "owned_process_group", report->has_launched && report->launched.group > 1);
    bh_json_bool(json, "checkpoint_channel", report->checkpoint_ready);
    bh_json_object(json, "recorder");
    bh_json_string(json, "state", bh_recorder_state_text((int)report->recorder.state));
    bh_report_json_text_or_null(json, "reason", report->recorder.reason);
    bh_json_end(json);
    bh_json_bool(json, "subreaper", host->subreaper);
    bh_json_bool(json, "pidfd", host->pidfd);
    bh_json_bool(json, "cgroup", host->cgroup);
    bh_report_json_text_or_null(json, "cgroup_reason", host->cgroup_reason);
    bh_json_bool(json, "brake", host->brake);
    bh_json_bool(json, "memory_locked", host->memory_locked);
    bh_json_bool(json, "realtime", host->realtime);
    bh_json_end(json);
}

static void render_band(struct bh_json *json, const char *key, bool enforce, uint64_t bytes)
{
    if (enforce)
        bh_json_u64(json, key, bytes);
    else
        bh_json_null(json, key);
}

static void render_changes(const struct bh_report *report, struct bh_json *json)
{
    bh_json_array(json, "limit_changes");
    for (size_t i = 0; i < report->limits_list.count; i++) {
        const struct bh_report_limits *change = &report->limits[i];
        bh_json_object(json, NULL);
        bh_json_u64(json, "at_ms", bh_report_ms(report, change->at));
        bh_json_u64(json, "revision", change->record.revision);
        bh_json_u64(json, "limit_bytes", change->record.limit_bytes);
        bh_json_u64(json, "recovery_bytes", change->record.recovery_bytes);
        bh_json_u64(json, "warning_bytes", change->record.warning_bytes);
        bh_json_u64(json, "emergency_bytes", change->record.emergency_bytes);
        bh_json_end(json);
    }
    bh_json_end(json);
    bh_json_u64(json, "limit_changes_omitted", report->limits_list.omitted);
}

static const char *checkpoint_method(enum bh_checkpoint_kind kind)
{
    switch (kind) {
    case BH_CHECKPOINT_PROTOCOL:
        return "protocol";
    case BH_CHECKPOINT_SIGNAL:
        return "signal";
    case BH_CHECKPOINT_NONE:
        break;
    }
    return "none";
}

static void render_configuration(const struct bh_report *report, struct bh_json *json)
{
    const struct bh_record_config *config = &report->config;
    bool enforce = config->mode == BH_MODE_ENFORCE;
    bh_json_object(json, "configuration");
    bh_json_string(json, "mode", bh_mode_text((int)config->mode));
    render_band(json, "limit_bytes", enforce, config->limit_bytes);
    render_band(json, "recovery_bytes", enforce, config->recovery_bytes);
    render_band(json, "warning_bytes", enforce, config->warning_bytes);
    render_band(json, "emergency_bytes", enforce, config->emergency_bytes);
    bh_json_u64(json, "required_breaches", config->breach_count);
    bh_json_u64(json, "breach_hold_ms", config->breach_hold_ns / BH_NS_PER_MS);
    bh_json_u64(json, "max_unusable", config->max_unusable);
    bh_json_u64(json, "sample_interval_ms", config->interval_ns / BH_NS_PER_MS);
    bh_json_u64(json, "min_sample_interval_us", config->min_interval_ns / BH_NS_PER_US);
    bh_json_u64(json, "max_sample_age_ms", config->max_sample_age_ns / BH_NS_PER_MS);
    bh_json_u64(json, "max_sample_window_ms", config->max_sample_window_ns / BH_NS_PER_MS);
    bh_json_string(json, "checkpoint_method", checkpoint_method(config->checkpoint_kind));
    bh_report_json_ms_or_null(
        json, "checkpoint_timeout_ms",
        config->checkpoint_kind == BH_CHECKPOINT_NONE ? 0 : config->checkpoint_timeout_ns);
    bh_report_json_ms_or_null(json, "wall_time_ms", config->wall_time_ns);
    bh_report_json_signal(json, "stop_signal", config->stop_signal);
    bh_json_object(json, "grace");
    bh_json_u64(json, "base_ms", config->grace_base_ns / BH_NS_PER_MS);
    bh_json_u64(json, "per_gib_ms", config->grace_per_gib_ns / BH_NS_PER_MS);
    bh_json_u64(json, "max_ms", config->grace_max_ns / BH_NS_PER_MS);
    bh_json_end(json);
    bh_json_string(json, "emergency_action",
                   config->emergency_action == BH_EMERGENCY_TERM ? "term" : "kill");
    bh_json_bool(json, "growth_kill", config->growth_kill);
    bh_json_bool(json, "brake", config->brake);
    bh_json_u64(json, "kill_retry_ms", config->kill_retry_ns / BH_NS_PER_MS);
    bh_json_u64(json, "kill_wait_ms", config->kill_wait_ns / BH_NS_PER_MS);
    bh_json_bool(json, "record", config->record);
    render_changes(report, json);
    bh_json_end(json);
}

int bh_report_render(const struct bh_report *report, int utc_offset_s, struct bh_bytes *ret_json)
{
    struct bh_json json;
    bh_json_begin(&json, ret_json, BH_JSON_PRETTY);
    bh_json_object(&json, NULL);
    bh_json_string(&json, "schema", BH_REPORT_SCHEMA);
    bh_json_u64(&json, "schema_version", BH_REPORT_SCHEMA_VERSION);
    bh_json_string(&json, "pool", bh_pool_text(BH_POOL_HOST));
    bh_report_json_text_or_null(&json, "package_version", report->host.package_version);
    render_run(report, &json);
    render_host(report, &json);
    render_capabilities(report, &json);
    render_configuration(report, &json);
    bh_report_json_series(report, &json);
    bh_report_json_events(report, &json);
    bh_report_json_end(report, utc_offset_s, &json);
    bh_json_end(&json);
    bh_json_finish(&json);
    return ret_json->failed ? BH_E_NOMEM : BH_OK;
}
