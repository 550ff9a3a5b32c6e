#include "core/model/sample.h"

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
