/* The one clock of the product: monotonic time including suspend (CLOCK_BOOTTIME on Linux,
 * continuous time on macOS), in nanoseconds, and wall time for people. Two types, so that a mix-up
 * does not compile. No failure: both clocks exist on every supported system. */
#ifndef BH_BASE_CLOCK_H
#define BH_BASE_CLOCK_H

#include <stdint.h>

struct bh_mono {
    uint64_t ns; /* since boot, suspend included */
};

struct bh_wall {
    int64_t us; /* since the Unix epoch, UTC */
};

#define BH_NS_PER_US 1000ull
#define BH_NS_PER_MS 1000000ull
#define BH_NS_PER_S  1000000000ull

struct bh_mono bh_clock_mono(void);
struct bh_wall bh_clock_wall(void);

/* One reading of both, taken together: how a monotonic time becomes epoch microseconds. */
struct bh_anchor {
    struct bh_mono mono;
    struct bh_wall wall;
};
struct bh_anchor bh_clock_anchor(void);
/* Epoch microseconds of a monotonic time under this anchor, rounded down. */
int64_t bh_clock_epoch_us(struct bh_anchor anchor, struct bh_mono at);

/* RFC 3339 UTC with milliseconds, "2026-01-02T03:04:05.678Z" and the terminator. */
#define BH_CLOCK_RFC3339_SIZE 25
void bh_clock_rfc3339(struct bh_wall at, char ret_text[static BH_CLOCK_RFC3339_SIZE]);

#endif
