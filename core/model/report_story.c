/* What the outcome's sentence needs, taken from the folded report. */
#include "core/model/report.h"

/* T: the crossing, unless it belongs to an earlier breach that ended by itself. */
static struct bh_mono reached_at(const struct bh_report *report)
{
    uint64_t streak_ns = report->config.breach_hold_ns +
                         4 * report->config.interval_ns * (report->config.breach_count + 1ull);
    if (report->has_limit_crossed && report->has_stop &&
        report->stop_at.ns - report->limit_crossed_at.ns > streak_ns)
        return report->stop_at;
    if (report->has_limit_crossed)
        return report->limit_crossed_at;
    return report->stop_at;
}

void bh_report_story(const struct bh_report *report, struct bh_outcome_story *ret_story)
{
    struct bh_outcome_story story = {
        .kind = report->outcome.kind,
        .cause = report->outcome.cause,
        .mode = report->config.mode,
        .exit_code = report->outcome.exit_code,
        .signal = report->outcome.signal,
        .limit_bytes = report->config.limit_bytes,
        .emergency_bytes = report->config.emergency_bytes,
        .wall_time_ns = report->config.wall_time_ns,
        .max_unusable = report->config.max_unusable,
        .survivors = report->outcome.survivors,
        .emergency_term = report->config.emergency_action == BH_EMERGENCY_TERM,
        .killed = report->killed,
        .checkpoint = report->stop_checkpoint,
        .error = report->outcome.error,
    };
    for (size_t i = 0; i < report->limits_list.count; i++) {
        if (report->has_stop && report->limits[i].at.ns > report->stop_at.ns)
            break;
        story.limit_bytes = report->limits[i].record.limit_bytes;
        story.emergency_bytes = report->limits[i].record.emergency_bytes;
    }
    struct bh_mono at = report->stop_at;
    bool known = report->has_stop;
    if (story.cause == BH_CAUSE_LIMIT_EXCEEDED) {
        at = reached_at(report);
        known |= report->has_limit_crossed;
    } else if (story.cause == BH_CAUSE_SUPERVISOR_LOST) {
        at = report->last_sample_at;
        known = at.ns != 0;
    }
    if (known) {
        int64_t epoch_us = bh_clock_epoch_us(report->anchor, at);
        story.reached_epoch_us.status = epoch_us >= 0 ? BH_VALUE_AVAILABLE : BH_VALUE_UNKNOWN;
        story.reached_epoch_us.value = (uint64_t)(epoch_us >= 0 ? epoch_us : 0);
    }
    if (known && report->has_empty && report->empty_at.ns >= at.ns) {
        story.later_ns.status = BH_VALUE_AVAILABLE;
        story.later_ns.value = report->empty_at.ns - at.ns;
    }
    *ret_story = story;
}
