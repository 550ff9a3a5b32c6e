#include "core/model/report.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/policy.h"

struct bh_report *bh_report_new(void)
{
    return calloc(1, sizeof(struct bh_report));
}

void bh_report_free(struct bh_report *report)
{
    free(report);
}

void bh_report_begin(struct bh_report *report, const char *run_id, struct bh_anchor anchor)
{
    memset(report, 0, sizeof *report);
    memcpy(report->run_id, run_id, BH_JOB_ID_SIZE - 1);
    report->anchor = anchor;
}

/* A place for one more entry of a bounded list: when it is full, the oldest of its second half
 * goes, so that the beginning and the end stay. */
static void *list_place(void *entries, size_t entry_bytes, size_t capacity,
                        struct bh_report_list *list)
{
    char *base = entries;
    if (list->count == capacity) {
        size_t middle = capacity / 2;
        memmove(base + middle * entry_bytes, base + (middle + 1) * entry_bytes,
                (capacity - middle - 1) * entry_bytes);
        list->count--;
        list->omitted++;
    }
    return base + list->count++ * entry_bytes;
}
#define LIST_PLACE(array, list)                                                                    \
    list_place(array, sizeof(array)[0], sizeof(array) / sizeof(array)[0], &(list))

/* ---- series ---- */

static void merge_sample(struct bh_report_sample *into, const struct bh_report_sample *next)
{
    if (next->count > 0 && (into->count == 0 || next->max.value > into->max.value)) {
        into->max = next->max;
        into->max_at = next->max_at;
    }
    if (next->count > 0 && (into->count == 0 || next->min.value < into->min.value))
        into->min = next->min;
    into->to = next->to;
    into->members = next->members;
    into->count += next->count;
    into->unusable += next->unusable;
}

static void merge_advisory(struct bh_report_advisory *into, const struct bh_report_advisory *next)
{
    if (into->host_available.status != BH_VALUE_AVAILABLE ||
        (next->host_available.status == BH_VALUE_AVAILABLE &&
         next->host_available.value < into->host_available.value))
        into->host_available = next->host_available;
    if (next->pressure_some_x100 > into->pressure_some_x100)
        into->pressure_some_x100 = next->pressure_some_x100;
}

/* Whether the next record opens a new entry; halves the series first when it is full. */
static bool series_step(struct bh_report_series *series, bool *ret_halve)
{
    *ret_halve = false;
    if (series->stride == 0)
        series->stride = 1;
    if (series->count > 0 && series->fill < series->stride) {
        series->fill++;
        return false;
    }
    if (series->count == BH_REPORT_POINTS) {
        *ret_halve = true;
        series->count /= 2;
        series->stride *= 2;
    }
    series->count++;
    series->fill = 1;
    return true;
}

static void add_sample(struct bh_report *report, const struct bh_report_sample *sample)
{
    bool halve = false;
    bool opens = series_step(&report->sample_series, &halve);
    for (size_t i = 0; halve && i < BH_REPORT_POINTS / 2; i++) {
        struct bh_report_sample pair = report->samples[2 * i];
        merge_sample(&pair, &report->samples[2 * i + 1]);
        report->samples[i] = pair;
    }
    struct bh_report_sample *last = &report->samples[report->sample_series.count - 1];
    if (opens)
        *last = *sample;
    else
        merge_sample(last, sample);
}

static void add_advisory(struct bh_report *report, const struct bh_report_advisory *advisory)
{
    bool halve = false;
    bool opens = series_step(&report->advisory_series, &halve);
    for (size_t i = 0; halve && i < BH_REPORT_POINTS / 2; i++) {
        struct bh_report_advisory pair = report->advisory[2 * i];
        merge_advisory(&pair, &report->advisory[2 * i + 1]);
        report->advisory[i] = pair;
    }
    struct bh_report_advisory *last = &report->advisory[report->advisory_series.count - 1];
    if (opens)
        *last = *advisory;
    else
        merge_advisory(last, advisory);
}

/* ---- records ---- */

static void fold_samples(struct bh_report *report, const struct bh_record_samples *record)
{
    struct bh_report_sample sample = {
        .from = record->from,
        .to = record->to,
        .max_at = record->max_at,
        .min = record->min,
        .max = record->max,
        .members = record->members,
        .count = record->count,
        .unusable = record->unusable,
    };
    add_sample(report, &sample);
    report->complete += record->count;
    report->incomplete += record->unusable;
    if (record->to.ns > report->last_sample_at.ns)
        report->last_sample_at = record->to;
    if (record->max.status == BH_VALUE_AVAILABLE &&
        (report->peak.status != BH_VALUE_AVAILABLE || record->max.value > report->peak.value)) {
        report->peak = record->max;
        report->peak_at = record->max_at;
    }
}

static bool acts(uint8_t policy_state)
{
    return policy_state == BH_POLICY_STATE_CHECKPOINT_REQUESTED ||
           policy_state == BH_POLICY_STATE_TERMINATING || policy_state == BH_POLICY_STATE_EMERGENCY;
}

static void fold_transition(struct bh_report *report, struct bh_mono at,
                            const struct bh_record_transition *record)
{
    struct bh_report_transition *place = LIST_PLACE(report->transitions, report->transition_list);
    *place = (struct bh_report_transition){at, *record};
    if (!report->has_stop && acts(record->to)) {
        report->has_stop = true;
        report->stop_at = at;
    }
}

static void fold_signal(struct bh_report *report, struct bh_mono at,
                        const struct bh_record_signal *record)
{
    struct bh_report_signal *place = LIST_PLACE(report->signals, report->signal_list);
    *place = (struct bh_report_signal){at, *record};
    if (record->signal == SIGKILL && record->result == BH_SIGNAL_DELIVERED &&
        strcmp(record->reason, "requested") != 0)
        report->killed = true;
}

static void fold_checkpoint(struct bh_report *report, struct bh_mono at,
                            const struct bh_record_checkpoint *record)
{
    report->checkpoint_rejected = record->rejected;
    if (record->word == BH_CKPT_READY) {
        report->checkpoint_ready = true;
        return;
    }
    struct bh_report_checkpoint *place = LIST_PLACE(report->checkpoints, report->checkpoint_list);
    *place = (struct bh_report_checkpoint){at, *record};
    if (strcmp(record->reason, "requested") != 0)
        report->stop_checkpoint = record->word;
}

static void live_add(struct bh_report *report, const struct bh_record_member *record)
{
    if (report->live_count == BH_REPORT_LIVE)
        return;
    struct bh_report_live *live = &report->live[report->live_count++];
    live->pid = record->pid;
    live->start_token = record->start_token;
    memcpy(live->basename, record->basename, sizeof live->basename);
}

static void live_remove(struct bh_report *report, const struct bh_record_member *record)
{
    for (size_t i = 0; i < report->live_count; i++) {
        if (report->live[i].pid == record->pid &&
            report->live[i].start_token == record->start_token) {
            report->live[i] = report->live[--report->live_count];
            return;
        }
    }
}

static void fold_member(struct bh_report *report, struct bh_mono at,
                        const struct bh_record_member *record)
{
    switch (record->event) {
    case BH_MEMBER_CAME:
        report->came++;
        live_add(report, record);
        return;
    case BH_MEMBER_WENT:
        report->went++;
        live_remove(report, record);
        if (record->max_rss_bytes > report->kernel_peak_bytes) {
            report->kernel_peak_bytes = record->max_rss_bytes;
            memcpy(report->kernel_peak_name, record->basename, sizeof report->kernel_peak_name);
        }
        return;
    case BH_MEMBER_EXEC:
        report->execs++;
        return;
    case BH_MEMBER_REPARENTED:
        report->reparented++;
        break;
    case BH_MEMBER_LEFT_GROUP:
        report->left_group++;
        break;
    case BH_MEMBER_LEFT_SESSION:
        report->left_session++;
        break;
    }
    struct bh_report_member *place = LIST_PLACE(report->members, report->member_list);
    *place = (struct bh_report_member){at, *record};
}

static void fold_escape(struct bh_report *report, struct bh_mono at,
                        const struct bh_record_member *record)
{
    report->escaped++;
    if (report->escape_count < BH_REPORT_ESCAPES)
        report->escapes[report->escape_count++] = (struct bh_report_member){at, *record};
}

static void fold_outcome(struct bh_report *report, const struct bh_record *record)
{
    /* a scribe's outcome never replaces the decider's own */
    if (report->has_outcome && record->by_scribe)
        return;
    report->has_outcome = true;
    report->outcome = record->outcome;
    report->outcome_at = record->at;
}

static void fold_launched(struct bh_report *report, const struct bh_record *record)
{
    report->has_launched = true;
    report->launched = record->launched;
    report->launched_at = record->at;
}

static void fold_config_change(struct bh_report *report, const struct bh_record *record)
{
    struct bh_report_limits *place = LIST_PLACE(report->limits, report->limits_list);
    *place = (struct bh_report_limits){record->at, record->config_change};
}

static void fold_advisory(struct bh_report *report, const struct bh_record *record)
{
    struct bh_report_advisory advisory = {
        .at = record->at,
        .host_available = record->advisory.host_available,
        .pressure_some_x100 = record->advisory.pressure_some_x100,
    };
    add_advisory(report, &advisory);
    report->available_at_end = record->advisory.host_available;
}

/* Rings are unmapped with their processes: what is told is the most that was mapped. A scribe that
 * took over does not know the version that its predecessor told. */
static void fold_recorder(struct bh_report *report, const struct bh_record_recorder *record)
{
    struct bh_record_recorder before = report->recorder;
    report->has_recorder = true;
    report->recorder = *record;
    if (before.ring_bytes > record->ring_bytes)
        report->recorder.ring_bytes = before.ring_bytes;
    if (record->mlx_version[0] == '\0')
        memcpy(report->recorder.mlx_version, before.mlx_version, sizeof before.mlx_version);
}

static void fold_mark(struct bh_report *report, const struct bh_record *record)
{
    struct bh_report_mark *place = LIST_PLACE(report->marks, report->mark_list);
    *place = (struct bh_report_mark){record->at, record->mark};
}

static void fold(struct bh_report *report, const struct bh_record *record)
{
    switch (record->kind) {
    case BH_RECORD_CONFIG:
        report->has_config = true;
        report->config = record->config;
        break;
    case BH_RECORD_HOST:
        report->has_host = true;
        report->host = record->host;
        break;
    case BH_RECORD_LAUNCHED:
        fold_launched(report, record);
        break;
    case BH_RECORD_SAMPLES:
        fold_samples(report, &record->samples);
        break;
    case BH_RECORD_LIMIT_CROSSED:
        if (!report->has_stop) {
            report->has_limit_crossed = true;
            report->limit_crossed_at = record->at;
        }
        break;
    case BH_RECORD_CONFIG_CHANGE:
        fold_config_change(report, record);
        break;
    case BH_RECORD_CLOCK_GAP:
        report->clock_gap_ns += record->clock_gap.gap_ns;
        break;
    case BH_RECORD_TRANSITION:
        fold_transition(report, record->at, &record->transition);
        break;
    case BH_RECORD_SIGNAL:
        fold_signal(report, record->at, &record->signal);
        break;
    case BH_RECORD_CHECKPOINT:
        fold_checkpoint(report, record->at, &record->checkpoint);
        break;
    case BH_RECORD_ESCAPE:
        fold_escape(report, record->at, &record->member);
        break;
    case BH_RECORD_MEMBER:
        fold_member(report, record->at, &record->member);
        break;
    case BH_RECORD_ADVISORY:
        fold_advisory(report, record);
        break;
    case BH_RECORD_LOSSES:
        report->lost_records += record->losses.records;
        report->lost_samples += record->losses.samples;
        break;
    case BH_RECORD_ARTIFACT_ERROR:
        if (report->artifact_error == 0)
            report->artifact_error = record->artifact_error.error;
        break;
    case BH_RECORD_OUTCOME:
        fold_outcome(report, record);
        break;
    case BH_RECORD_PEAK_MEMBER:
        if (report->peak_count < BH_REPORT_PEAK)
            report->peak_members[report->peak_count++] = record->peak_member;
        break;
    case BH_RECORD_RECORDER:
        fold_recorder(report, &record->recorder);
        break;
    case BH_RECORD_MARK:
        fold_mark(report, record);
        break;
    case BH_RECORD_EMPTY:
        report->has_empty = true;
        report->empty = record->empty;
        report->empty_at = record->at;
        break;
    case BH_RECORD_SAMPLE: /* in samples files only */
        break;
    }
}

void bh_report_add(struct bh_report *report, const struct bh_record *record)
{
    if (report->first_at.ns == 0)
        report->first_at = record->at;
    if (record->at.ns > report->last_at.ns)
        report->last_at = record->at;
    if (record->pool == BH_POOL_HOST) /* other pools are data for readers that know them */
        fold(report, record);
}

void bh_report_finish(struct bh_report *report, bool journal_complete)
{
    report->journal_complete = journal_complete;
}
