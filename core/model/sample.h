/* Samples of the tree, folded as they come: counts, peak and growth for the decider's outcome and
 * for calibration (report.md section 3), and the min/max spans that the scribe puts into the
 * journal in place of full-rate samples. Pure; plain values of the caller; sums saturate. */
#ifndef BH_MODEL_SAMPLE_H
#define BH_MODEL_SAMPLE_H

#include "core/model/record.h"

/* Zero-initialise. A sample whose bytes are not available is incomplete. */
struct bh_sample_stats {
    uint64_t complete, incomplete;
    uint64_t peak_bytes; /* meaningful when complete > 0 */
    struct bh_mono peak_at;
    uint64_t peak_growth_per_s; /* between consecutive complete samples */
    struct bh_mono first_at, last_at;
    bool has_baseline;
    uint64_t baseline_bytes;
    struct bh_mono baseline_at;
};

/* Growth is the rise since the sample before, scaled to one second in 128 bits; an incomplete
 * sample clears the baseline, two samples of one instant give none. ret_new_peak (NULL allowed)
 * tells whether this sample is the greatest so far. */
void bh_sample_stats_add(struct bh_sample_stats *stats, const struct bh_sample *sample,
                         bool *ret_new_peak);

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
