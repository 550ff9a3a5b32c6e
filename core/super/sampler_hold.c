/* Breaches that only disturbed exact rounds show are not acted on at once. While processes fork,
 * end, execute or take shared pages in the middle of a round, its answers do not belong together,
 * and a sum of them can be far above the truth. */
#include "core/super/sampler.h"

/* How long a breach that only disturbed rounds show is held back; within the age that a sample may
 * have (500 ms), so that the policy sees the last one that stood, and its true time. Then the least
 * that any of the rounds gave is taken: waiting longer would be blind. */
#define HOLD_NS (400 * BH_NS_PER_MS)
/* Between the rounds of that time: each holds up the job's own page faults. */
#define RETRY_NS (4 * BH_NS_PER_MS)

static void stand_in(struct bh_sampler *sampler, struct bh_sample *ret_sample)
{
    *ret_sample = sampler->stood;
    ret_sample->processed_at = sampler->os->now(sampler->os->self);
}

void bh_sampler_hold_back(struct bh_sampler *sampler, const struct bh_policy_bands *bands,
                          bool disturbed, struct bh_sample *ret_sample)
{
    struct bh_mono now = ret_sample->processed_at;
    bool acts = bands && ret_sample->bytes.status == BH_VALUE_AVAILABLE &&
                ret_sample->bytes.value >= bands->limit_bytes;
    if (!disturbed || !acts) {
        sampler->unconfirmed = false;
        if (ret_sample->bytes.status == BH_VALUE_AVAILABLE && !disturbed) {
            sampler->stood = *ret_sample;
            sampler->has_stood = true;
        }
        return;
    }
    if (!sampler->unconfirmed) {
        sampler->unconfirmed = true;
        sampler->unconfirmed_since = now;
        sampler->least_bytes = ret_sample->bytes.value;
    }
    if (ret_sample->bytes.value < sampler->least_bytes)
        sampler->least_bytes = ret_sample->bytes.value;
    ret_sample->bytes.value = sampler->least_bytes;
    sampler->retry_at.ns = now.ns + RETRY_NS;
    bool fresh = sampler->has_stood && now.ns - sampler->stood.captured_at.ns < HOLD_NS;
    if (!fresh || now.ns - sampler->unconfirmed_since.ns >= HOLD_NS)
        return;
    stand_in(sampler, ret_sample);
}

bool bh_sampler_held(struct bh_sampler *sampler, struct bh_mono now, struct bh_sample *ret_sample)
{
    if (!sampler->unconfirmed || now.ns >= sampler->retry_at.ns)
        return false;
    stand_in(sampler, ret_sample);
    return true;
}
