#include "core/super/reclaim.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/base/io.h"
#include "core/base/json_out.h"
#include "core/platform/platform.h"

#define NOISE_FLOOR_BYTES (64ull << 20)

static const uint64_t reading_after_ns[2] = {2 * BH_NS_PER_S, 10 * BH_NS_PER_S};
static const char *const reading_names[2] = {"after_2s_bytes", "after_10s_bytes"};

const char *bh_reclaim_verdict_text(enum bh_reclaim_verdict verdict)
{
    switch (verdict) {
    case BH_RECLAIM_UNKNOWN:
        return "unknown";
    case BH_RECLAIM_RECLAIMED:
        return "reclaimed";
    case BH_RECLAIM_PARTLY:
        return "partly";
    case BH_RECLAIM_STRANDED:
        return "stranded";
    }
    return "unknown";
}

static uint64_t noise_bytes(uint64_t total_bytes)
{
    return total_bytes / 100 > NOISE_FLOOR_BYTES ? total_bytes / 100 : NOISE_FLOOR_BYTES;
}

static uint64_t less(uint64_t left, uint64_t right)
{
    return left > right ? left - right : 0;
}

enum bh_reclaim_verdict bh_reclaim_judge(const struct bh_reclaim_facts *facts,
                                         struct bh_observed now_bytes, uint64_t total_bytes)
{
    if (facts->before_bytes.status != BH_VALUE_AVAILABLE ||
        now_bytes.status != BH_VALUE_AVAILABLE || facts->peak_bytes.status != BH_VALUE_AVAILABLE)
        return BH_RECLAIM_UNKNOWN;
    uint64_t missing = less(facts->before_bytes.value, now_bytes.value);
    uint64_t peak = facts->peak_bytes.value;
    uint64_t back = less(peak, missing);
    if (missing <= noise_bytes(total_bytes) || back >= peak - peak / 10)
        return BH_RECLAIM_RECLAIMED;
    return back >= peak / 2 ? BH_RECLAIM_PARTLY : BH_RECLAIM_STRANDED;
}

static void put_observed(struct bh_json *json, const char *key, struct bh_observed value)
{
    bh_json_object(json, key);
    if (value.status == BH_VALUE_AVAILABLE) {
        bh_json_string(json, "status", "available");
        bh_json_u64(json, "value", value.value);
    } else {
        bh_json_string(json, "status", "unknown");
    }
    bh_json_end(json);
}

static void put_facts(struct bh_json *json, const struct bh_reclaim_facts *facts,
                      uint64_t total_bytes)
{
    put_observed(json, "available_before_bytes", facts->before_bytes);
    put_observed(json, "available_at_end_bytes", facts->end_bytes);
    put_observed(json, "peak_charge_bytes", facts->peak_bytes);
    bh_json_u64(json, "host_total_bytes", total_bytes);
    bh_json_u64(json, "noise_bytes", noise_bytes(total_bytes));
    bh_json_string(json, "arithmetic",
                   "missing = before - reading; back = peak - missing; reclaimed when missing <= "
                   "noise or back >= 90 % of peak, partly when back >= half, else stranded");
}

/* The part of the peak that came back, 0 to 1; null when a value is missing. */
static void put_share(struct bh_json *json, const struct bh_reclaim_facts *facts,
                      struct bh_observed now_bytes)
{
    if (bh_reclaim_judge(facts, now_bytes, 0) == BH_RECLAIM_UNKNOWN ||
        facts->peak_bytes.value == 0) {
        bh_json_null(json, "returned_share");
        return;
    }
    uint64_t missing = less(facts->before_bytes.value, now_bytes.value);
    uint64_t back = less(facts->peak_bytes.value, missing);
    bh_json_double(json, "returned_share",
                   (double)(back * 1000 / facts->peak_bytes.value) / 1000.0);
}

static int write_file(const struct bh_run *run, const struct bh_reclaim_facts *facts,
                      const struct bh_observed readings[2], uint64_t total_bytes)
{
    struct bh_bytes bytes = {0};
    struct bh_json json;
    bh_json_begin(&json, &bytes, BH_JSON_PRETTY);
    bh_json_object(&json, NULL);
    bh_json_string(&json, "schema", "bulkhead.reclamation");
    bh_json_u64(&json, "schema_version", 1);
    bh_json_string(&json, "run_id", run->id);
    put_facts(&json, facts, total_bytes);
    enum bh_reclaim_verdict verdict = BH_RECLAIM_UNKNOWN;
    for (int i = 0; i < 2; i++) {
        put_observed(&json, reading_names[i], readings[i]);
        if (readings[i].status == BH_VALUE_AVAILABLE)
            verdict = bh_reclaim_judge(facts, readings[i], total_bytes);
    }
    bh_json_string(&json, "verdict", bh_reclaim_verdict_text(verdict));
    put_share(&json, facts, readings[1].status == BH_VALUE_AVAILABLE ? readings[1] : readings[0]);
    bh_json_bool(&json, "final", readings[1].status == BH_VALUE_AVAILABLE);
    bh_json_end(&json);
    bh_json_finish(&json);
    int result = bytes.failed ? BH_E_NOMEM
                              : bh_io_replace(run->run_fd, BH_RUN_RECLAIM_NAME, bytes.data,
                                              bytes.length, true, NULL);
    bh_bytes_done(&bytes);
    return result;
}

static void sleep_until(uint64_t at_ns)
{
    for (uint64_t now = bh_clock_mono().ns; now < at_ns; now = bh_clock_mono().ns) {
        struct timespec left = {.tv_sec = (time_t)((at_ns - now) / BH_NS_PER_S),
                                .tv_nsec = (long)((at_ns - now) % BH_NS_PER_S)};
        if (nanosleep(&left, NULL) < 0 && errno != EINTR)
            return;
    }
}

int bh_reclaim_watch(const struct bh_run *run, const struct bh_reclaim_facts *facts)
{
    struct bh_observed readings[2] = {{0}, {0}};
    struct bh_platform_memory memory = {0};
    int result = BH_OK;
    if (run->temporary)
        return BH_OK;
    for (int i = 0; i < 2 && result == BH_OK; i++) {
        sleep_until(facts->ended_at.ns + reading_after_ns[i]);
        if (bh_platform_host_memory(&memory) == BH_OK)
            readings[i] =
                (struct bh_observed){.status = BH_VALUE_AVAILABLE, .value = memory.available_bytes};
        result = write_file(run, facts, readings, memory.total_bytes);
    }
    return result;
}
