/* The min/max spans that the scribe puts into the journal in place of full-rate samples (about one
 * a second). Pure; plain values of the caller. A sample whose bytes are not available is unusable
 * and counted as such: unknown is never 0. */
#ifndef BH_MODEL_SAMPLE_H
#define BH_MODEL_SAMPLE_H

#include "core/model/record.h"

/* One journal span. Zero-initialise; bh_sample_span_full says that the sample no longer
 * belongs (the span covers BH_SAMPLE_SPAN_NS): take the span, start a new one, add again. */
#define BH_SAMPLE_SPAN_NS 1000000000ull
struct bh_sample_span {
    struct bh_record_samples record; /* count + unusable = 0: nothing in it */
};
bool bh_sample_span_full(const struct bh_sample_span *span, const struct bh_sample *sample);
void bh_sample_span_add(struct bh_sample_span *span, const struct bh_sample *sample);
bool bh_sample_span_empty(const struct bh_sample_span *span);

#endif
