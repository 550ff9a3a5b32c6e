/* The report: a fold of the journal's records, its checks, and its JSON (report.md, section 2).
 * Pure: the same records give the same bytes. Used by finish.c (scribe, adopt) and bulkhead-tool.
 *
 *     struct bh_report *report = bh_report_new();
 *     bh_report_begin(report, run_id, anchor);
 *     for each record: bh_report_add(report, record);
 *     bh_report_finish(report, journal end);
 *     bh_report_validate(report, diag);       a report that fails is never served as complete
 *     bh_report_render(report, utc_offset_s, bytes);
 *
 * Everything is bounded: long lists keep their first and their last entries and count what fell
 * out between, sample series merge neighbours (extremes stay exact). About 120 KiB. */
#ifndef BH_MODEL_REPORT_H
#define BH_MODEL_REPORT_H

#include "core/base/bytes.h"
#include "core/model/outcome.h"

#define BH_REPORT_SCHEMA         "bulkhead.report"
#define BH_REPORT_SCHEMA_VERSION 1

#define BH_REPORT_POINTS      240 /* of a series, an even number; a report stays below 200 KiB */
#define BH_REPORT_TRANSITIONS 128
#define BH_REPORT_SIGNALS     128
#define BH_REPORT_CHECKPOINTS 32
#define BH_REPORT_MEMBERS     128
#define BH_REPORT_ESCAPES     64
#define BH_REPORT_PEAK        64
#define BH_REPORT_MARKS       64
#define BH_REPORT_LIMITS      32
#define BH_REPORT_LIVE        256

struct bh_report_sample {
    struct bh_mono from, to, max_at;
    struct bh_observed min, max;
    uint32_t members, count, unusable;
};

struct bh_report_advisory {
    struct bh_mono at;
    struct bh_observed host_available;
    uint32_t pressure_some_x100;
};

/* A bounded list: `count` entries are kept, `omitted` fell out behind the first half. */
struct bh_report_list {
    size_t count;
    uint64_t omitted;
};

/* A series of equal steps: each entry merges `stride` records, the last one holds `fill` so far. */
struct bh_report_series {
    size_t count;
    uint32_t stride, fill;
};

struct bh_report_live {
    int pid;
    uint64_t start_token;
    char basename[BH_BASENAME_SIZE];
};

struct bh_report_transition {
    struct bh_mono at;
    struct bh_record_transition record;
};
struct bh_report_signal {
    struct bh_mono at;
    struct bh_record_signal record;
};
struct bh_report_checkpoint {
    struct bh_mono at;
    struct bh_record_checkpoint record;
};
struct bh_report_member {
    struct bh_mono at;
    struct bh_record_member record;
};
struct bh_report_mark {
    struct bh_mono at;
    struct bh_record_mark record;
};
struct bh_report_limits {
    struct bh_mono at;
    struct bh_record_config_change record;
};

struct bh_report {
    char run_id[BH_JOB_ID_SIZE];
    struct bh_anchor anchor;
    bool has_config, has_host, has_launched, has_outcome, has_empty, has_recorder;
    bool journal_complete; /* the journal's reader said complete */
    struct bh_record_config config;
    struct bh_record_host host;
    struct bh_record_launched launched;
    struct bh_record_outcome outcome;
    struct bh_record_empty empty;
    struct bh_record_recorder recorder;
    struct bh_mono first_at, last_at; /* of any record */
    struct bh_mono launched_at, outcome_at, empty_at, last_sample_at;
    struct bh_mono limit_crossed_at; /* last one before the stop */
    struct bh_mono stop_at;          /* first transition that acts */
    bool has_limit_crossed, has_stop, killed;
    struct bh_observed peak; /* over the SAMPLES records */
    struct bh_mono peak_at;
    uint64_t complete, incomplete;
    uint64_t kernel_peak_bytes; /* greatest ru_maxrss of a reaped member, 0 none */
    char kernel_peak_name[BH_BASENAME_SIZE];
    uint64_t escaped, reparented, left_group, left_session, execs, came, went;
    uint64_t lost_records, lost_samples, clock_gap_ns;
    int artifact_error;
    struct bh_observed available_at_end;
    enum bh_checkpoint_word stop_checkpoint; /* how the one before the stop ended */
    bool checkpoint_ready;                   /* the channel was negotiated */
    uint32_t checkpoint_rejected;            /* acknowledgements refused */

    struct bh_report_sample samples[BH_REPORT_POINTS];
    struct bh_report_series sample_series;
    struct bh_report_advisory advisory[BH_REPORT_POINTS];
    struct bh_report_series advisory_series;
    struct bh_report_live
        live[BH_REPORT_LIVE]; /* came and not went: the survivors of a failed stop */
    size_t live_count;
    struct bh_report_transition transitions[BH_REPORT_TRANSITIONS];
    struct bh_report_list transition_list;
    struct bh_report_signal signals[BH_REPORT_SIGNALS];
    struct bh_report_list signal_list;
    struct bh_report_checkpoint checkpoints[BH_REPORT_CHECKPOINTS];
    struct bh_report_list checkpoint_list;
    struct bh_report_member
        members[BH_REPORT_MEMBERS]; /* reparented, left …: not came, went, exec */
    struct bh_report_list member_list;
    struct bh_report_member escapes[BH_REPORT_ESCAPES];
    size_t escape_count;
    struct bh_record_peak_member peak_members[BH_REPORT_PEAK];
    size_t peak_count;
    struct bh_report_mark marks[BH_REPORT_MARKS];
    struct bh_report_list mark_list;
    struct bh_report_limits limits[BH_REPORT_LIMITS];
    struct bh_report_list limits_list;
};

struct bh_report *bh_report_new(void); /* NULL: no memory */
void bh_report_free(struct bh_report *report);

void bh_report_begin(struct bh_report *report, const char *run_id, struct bh_anchor anchor);
void bh_report_add(struct bh_report *report, const struct bh_record *record);
void bh_report_finish(struct bh_report *report, bool journal_complete);

/* BH_E_REPORT_SUPPRESSED with the first thing that is wrong: bands and times ordered, counts
 * consistent, kinds and causes that go together. */
int bh_report_validate(const struct bh_report *report, struct bh_diag *diag);

/* What the sentence needs; for `run`'s last line too. */
void bh_report_story(const struct bh_report *report, struct bh_outcome_story *ret_story);

/* Pretty JSON, one trailing newline. BH_E_NOMEM. */
int bh_report_render(const struct bh_report *report, int utc_offset_s, struct bh_bytes *ret_json);

#endif
