#include "core/model/sample.h"

#include "core/base/wide.h"

static uint64_t growth_per_s(uint64_t from_bytes, uint64_t to_bytes, uint64_t ns)
{
    if (to_bytes <= from_bytes || ns == 0)
        return 0;
    bh_u128 rate = (bh_u128)(to_bytes - from_bytes) * BH_NS_PER_S / ns;
    return rate > (bh_u128)INT64_MAX ? (uint64_t)INT64_MAX : (uint64_t)rate;
}

void bh_sample_stats_add(struct bh_sample_stats *stats, const struct bh_sample *sample,
                         bool *ret_new_peak)
{
    bool new_peak = false;
    if (stats->complete + stats->incomplete == 0)
        stats->first_at = sample->captured_at;
    stats->last_at = sample->captured_at;
    if (sample->bytes.status != BH_VALUE_AVAILABLE) {
        stats->incomplete++;
        stats->has_baseline = false;
    } else {
        uint64_t bytes = sample->bytes.value;
        if (stats->has_baseline && sample->captured_at.ns > stats->baseline_at.ns) {
            uint64_t rate = growth_per_s(stats->baseline_bytes, bytes,
                                         sample->captured_at.ns - stats->baseline_at.ns);
            if (rate > stats->peak_growth_per_s)
                stats->peak_growth_per_s = rate;
        }
        new_peak = stats->complete == 0 || bytes > stats->peak_bytes;
        if (new_peak) {
            stats->peak_bytes = bytes;
            stats->peak_at = sample->captured_at;
        }
        stats->complete++;
        stats->has_baseline = true;
        stats->baseline_bytes = bytes;
        stats->baseline_at = sample->captured_at;
    }
    if (ret_new_peak)
        *ret_new_peak = new_peak;
}

bool bh_sample_span_empty(const struct bh_sample_span *span)
{
    return span->record.count + span->record.unusable == 0;
}

bool bh_sample_span_full(const struct bh_sample_span *span, const struct bh_sample *sample)
{
    return !bh_sample_span_empty(span) &&
           sample->captured_at.ns - span->record.from.ns >= BH_SAMPLE_SPAN_NS;
}

void bh_sample_span_add(struct bh_sample_span *span, const struct bh_sample *sample)
{
    struct bh_record_samples *record = &span->record;
    /* in order, but for a scribe that takes two samples files over */
    if (bh_sample_span_empty(span) || sample->captured_at.ns < record->from.ns)
        record->from = sample->captured_at;
    if (sample->captured_at.ns >= record->to.ns) {
        record->to = sample->captured_at;
        record->members = sample->members;
        record->last = sample->bytes;
    }
    if (sample->bytes.status != BH_VALUE_AVAILABLE) {
        record->unusable++;
        return;
    }
    if (record->count == 0 || sample->bytes.value < record->min.value)
        record->min = sample->bytes;
    if (record->count == 0 || sample->bytes.value > record->max.value) {
        record->max = sample->bytes;
        record->max_at = sample->captured_at;
    }
    record->count++;
}
