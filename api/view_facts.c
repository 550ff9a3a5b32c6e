/* view_json.h: facts of the journal, samples, members, host and server. */
#include <stdio.h>
#include <string.h>

#include "api/view_json.h"
#include "core/base/text.h"
#include "core/model/policy.h"

/* seq, at_ms since the start, at_us; the head of every fact. */
static void head(struct bh_json *json, const char *job_id, const struct bh_record *record,
                 struct bh_anchor anchor, struct bh_wall started)
{
    int64_t at_us = bh_clock_epoch_us(anchor, record->at);
    int64_t since = started.us ? at_us - started.us : 0;
    if (job_id)
        bh_json_string(json, "job_id", job_id);
    bh_json_u64(json, "seq", record->sequence);
    bh_json_i64(json, "at_ms", since > 0 ? since / 1000 : 0);
    bh_json_i64(json, "at_us", at_us);
}

void bh_view_transition(struct bh_json *json, const char *key, const char *job_id,
                        const struct bh_record *record, struct bh_anchor anchor,
                        struct bh_wall started)
{
    const struct bh_record_transition *fact = &record->transition;
    bh_json_object(json, key);
    head(json, job_id, record, anchor, started);
    bh_json_string(json, "from", bh_policy_state_name((enum bh_policy_state_id)fact->from));
    bh_json_string(json, "to", bh_policy_state_name((enum bh_policy_state_id)fact->to));
    bh_view_observed(json, "aggregate", fact->bytes, NULL);
    bh_json_string(json, "reason", fact->reason[0] ? fact->reason : NULL);
    bh_json_end(json);
}

void bh_view_signal(struct bh_json *json, const char *key, const char *job_id,
                    const struct bh_record *record, struct bh_anchor anchor, struct bh_wall started)
{
    const struct bh_record_signal *fact = &record->signal;
    char name[16];
    bh_json_object(json, key);
    head(json, job_id, record, anchor, started);
    bh_json_string(json, "signal", bh_text_signal_name(fact->signal, name, sizeof name));
    /* a signal to the root alone is one to our group, in the API's two words */
    bh_json_string(json, "target",
                   bh_signal_target_text(fact->target == BH_TARGET_ENDPOINT ? BH_TARGET_ENDPOINT
                                                                            : BH_TARGET_TREE));
    bh_json_string(json, "result", bh_signal_result_text((int)fact->result));
    bh_json_string(json, "reason", fact->reason[0] ? fact->reason : NULL);
    bh_json_end(json);
}

void bh_view_checkpoint(struct bh_json *json, const char *key, const char *job_id,
                        const struct bh_record *record, struct bh_anchor anchor,
                        struct bh_wall started)
{
    const struct bh_record_checkpoint *fact = &record->checkpoint;
    bh_json_object(json, key);
    head(json, job_id, record, anchor, started);
    bh_json_string(json, "status",
                   bh_checkpoint_word_text(fact->word == BH_CKPT_READY ? BH_CKPT_NOT_NEGOTIATED
                                                                       : (int)fact->word));
    bh_json_string(json, "reason", fact->reason[0] ? fact->reason : NULL);
    if (fact->artifact_bytes.status == BH_VALUE_AVAILABLE)
        bh_json_u64(json, "size_bytes", fact->artifact_bytes.value);
    else
        bh_json_null(json, "size_bytes");
    bh_json_end(json);
}

static void ms_or_null(struct bh_json *json, const char *key, bool has, uint64_t ms)
{
    if (has)
        bh_json_u64(json, key, ms);
    else
        bh_json_null(json, key);
}

void bh_view_member(struct bh_json *json, const char *key, const struct bh_member_view *view)
{
    char token[24];
    (void)snprintf(token, sizeof token, "%llu", (unsigned long long)view->start_token);
    bh_json_object(json, key);
    bh_json_i64(json, "pid", view->pid);
    bh_json_string(json, "start_token", token);
    bh_json_string(json, "executable_basename", view->basename);
    bh_json_bool(json, "root", view->root);
    ms_or_null(json, "joined_at_ms", view->has_joined, view->joined_ms);
    ms_or_null(json, "left_at_ms", view->has_left, view->left_ms);
    bh_json_bool(json, "left_group", view->left_group);
    bh_view_observed(json, "charge", view->charge, NULL);
    bh_json_end(json);
}

static void span(struct bh_json *json, const char *key, bool has, uint64_t minimum,
                 uint64_t maximum, uint64_t last)
{
    if (!has) {
        bh_json_null(json, key);
        return;
    }
    bh_json_object(json, key);
    bh_json_u64(json, "min", minimum);
    bh_json_u64(json, "max", maximum);
    bh_json_u64(json, "last", last);
    bh_json_end(json);
}

void bh_view_sample_document(const struct bh_sample_view *view, struct bh_bytes *ret_body)
{
    struct bh_json json;
    bh_json_begin(&json, ret_body, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_string(&json, "job_id", view->job_id);
    bh_json_i64(&json, "from_us", view->from_us);
    bh_json_i64(&json, "to_us", view->to_us);
    bh_json_string(&json, "policy_state",
                   bh_policy_state_name((enum bh_policy_state_id)view->policy_state));
    bh_json_u64(&json, "members", view->members);
    span(&json, "charge", view->has_charge, view->charge_min, view->charge_max, view->charge_last);
    span(&json, "active", view->active.status == BH_VALUE_AVAILABLE, view->active_min,
         view->active_max, view->active.value);
    span(&json, "reserved", view->reserved.status == BH_VALUE_AVAILABLE, view->reserved_min,
         view->reserved_max, view->reserved.value);
    bh_json_end(&json);
    bh_json_finish(&json);
}

static void host_memory(struct bh_json *json, const struct bh_host_view *view)
{
    bh_json_u64(json, "memory_total_bytes", view->total_bytes);
    bh_json_u64(json, "memory_available_bytes", view->available_bytes);
    bh_json_u64(json, "charged_bytes", view->charged_bytes);
    bh_json_array(json, "charged");
    for (size_t i = 0; i < view->charged_count; i++) {
        bh_json_object(json, NULL);
        bh_json_string(json, "job_id", view->charged[i].job_id);
        bh_json_string(json, "name", view->charged[i].name);
        bh_json_u64(json, "charge_bytes", view->charged[i].charge_bytes);
        bh_json_end(json);
    }
    bh_json_end(json);
    bh_json_u64(json, "other_bytes", view->other_bytes);
    bh_json_u64(json, "committed_bytes", view->committed_bytes);
    bh_json_u64(json, "committed_jobs", view->committed_jobs);
    bh_json_u64(json, "observed_bytes", view->observed_bytes);
    bh_json_i64(json, "fits_now_bytes", view->fits_now_bytes);
}

static void host_pressure(struct bh_json *json, const struct bh_host_view *view)
{
    bh_json_object(json, "pressure");
    bh_json_string(json, "status", view->has_pressure ? "available" : "unavailable");
    if (view->has_pressure) {
        bh_json_object(json, "value");
        bh_json_double(json, "some_avg10", view->some_avg10);
        bh_json_double(json, "full_avg10", view->full_avg10);
        bh_json_end(json);
    } else {
        bh_json_string(json, "reason", "this kernel has no pressure information");
    }
    bh_json_end(json);
}

void bh_view_host_document(const struct bh_host_view *view, struct bh_bytes *ret_body)
{
    struct bh_json json;
    bh_json_begin(&json, ret_body, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_view_time(&json, "at", view->at);
    bh_json_i64(&json, "at_us", view->at.us);
    host_memory(&json, view);
    host_pressure(&json, view);
    bh_json_u64(&json, "live_jobs", view->live_jobs);
    bh_json_u64(&json, "finished_jobs", view->finished_jobs);
    bh_json_object(&json, "capabilities");
    bh_json_string(&json, "boundary",
                   bh_boundary_text(view->boundary ? (int)view->boundary : BH_BOUNDARY_SAMPLED));
    bh_json_string(&json, "boundary_reason", view->boundary_reason);
    bh_json_string(&json, "footprint_metric", view->metric);
    bh_json_bool(&json, "subreaper", view->subreaper);
    bh_json_bool(&json, "cgroup", view->cgroup);
    bh_json_bool(&json, "recorder", view->recorder);
    bh_json_bool(&json, "checkpoint_channel", true);
    bh_json_bool(&json, "pidfd", view->pidfd);
    bh_json_end(&json);
    bh_json_end(&json);
    bh_json_finish(&json);
}

static void info_limits(struct bh_json *json, const struct bh_info_view *view)
{
    bh_json_object(json, "limits");
    bh_json_u64(json, "max_body_bytes", 1u << 20);
    bh_json_u64(json, "max_memory_events_body_bytes", 64u << 20);
    bh_json_u64(json, "max_streams", view->max_streams);
    bh_json_u64(json, "long_poll_max_ms", 60000);
    bh_json_end(json);
}

static void info_notices(struct bh_json *json, const struct bh_info_view *view)
{
    bh_json_array(json, "notices");
    for (size_t i = 0; i < view->notice_count; i++) {
        bh_json_object(json, NULL);
        bh_json_string(json, "code", view->notices[i].code);
        bh_json_string(json, "detail", view->notices[i].detail);
        bh_view_time(json, "at", view->notices[i].at);
        bh_json_end(json);
    }
    bh_json_end(json);
}

void bh_view_info_document(const struct bh_info_view *view, struct bh_bytes *ret_body)
{
    struct bh_json json;
    bh_json_begin(&json, ret_body, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_string(&json, "name", "bulkhead");
    bh_json_string(&json, "version", BH_VERSION);
    bh_json_string(&json, "api_version", "v1");
    bh_json_string(&json, "server_epoch", view->epoch);
    bh_json_i64(&json, "pid", view->pid);
    bh_view_time(&json, "started_at", view->started_at);
    bh_json_string(&json, "os", view->os);
    bh_json_string(&json, "kernel", view->kernel);
    bh_json_string(&json, "machine", view->machine);
    bh_json_u64(&json, "page_size_bytes", view->page_bytes);
    info_limits(&json, view);
    bh_json_object(&json, "security");
    bh_json_u64(&json, "refused_total", view->refused_total);
    bh_json_array(&json, "recent");
    for (size_t i = 0; i < view->refusal_count; i++) {
        bh_json_object(&json, NULL);
        bh_view_time(&json, "at", view->refusals[i].at);
        bh_json_string(&json, "code", view->refusals[i].code);
        bh_json_u64(&json, "count", view->refusals[i].count);
        bh_json_end(&json);
    }
    bh_json_end(&json);
    bh_json_end(&json);
    info_notices(&json, view);
    bh_json_end(&json);
    bh_json_finish(&json);
}
