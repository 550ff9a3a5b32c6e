/*
 * The time of an event: CLOCK_BOOTTIME, which costs more than everything else about a slot. Where
 * the kernel itself keeps time by the processor's counter (clocksource tsc, a rate that never
 * changes) the counter is read here, and the clock once per millisecond of events: each reading
 * begins a new stretch, so that the clock's own corrections are followed and an error does not
 * grow. Nothing else is assumed: a stretch that does not fit the one before it (a suspended
 * machine, a moved virtual machine) makes the rate unknown again, and the clock is asked until a
 * new one is measured. Times never go back. Everything here runs under bh_live.lock.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/record/record.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define STRETCH_NS     1000000u   /* between two readings of the clock */
#define MEASURE_NS     2000000u   /* a rate is taken over at least this long .. */
#define RENEW_NS       200000000u /* .. and again after this long */
#define MEASURE_NS_MAX ((uint64_t)1 << 50)
#define RATE_SHIFT     32
#define DRIFT_PARTS    1000u  /* rates further apart than one part in this many are no drift */
#define TOGETHER_TICKS 20000u /* some microseconds: two readings that belong together */
#define SOURCE_FILE    "/sys/devices/system/clocksource/clocksource0/current_clocksource"

__extension__ typedef unsigned __int128 wide;

static bool counter_good;
static BH_HOT uint64_t rate;                /* ns per tick << RATE_SHIFT, 0 = not known */
static BH_HOT uint64_t stretch_ticks;       /* of STRETCH_NS, 0 = no rate */
static BH_HOT uint64_t base_ns, base_ticks; /* where this stretch began */
static uint64_t origin_ns, origin_ticks;    /* where the measurement under way began */

uint64_t bh_clock_read(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)
static inline uint64_t ticks(void)
{
    return __builtin_ia32_rdtsc();
}

static bool counter_is_steady(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0;
}
#else
static inline uint64_t ticks(void)
{
    return 0;
}

static bool counter_is_steady(void)
{
    return false;
}
#endif

static bool kernel_trusts_counter(void)
{
    char text[8] = "";
    ssize_t got;
    int fd = open(SOURCE_FILE, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return false;
    }
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    return got == 4 && memcmp(text, "tsc\n", 4) == 0;
}

/* The counter's rate over the measurement under way, 0 = the readings make no sense. */
static uint64_t measured_rate(uint64_t now_ns, uint64_t now_ticks)
{
    uint64_t passed_ns = now_ns - origin_ns;
    uint64_t passed_ticks = now_ticks - origin_ticks;

    if (origin_ticks == 0 || now_ns < origin_ns || now_ticks <= origin_ticks ||
        passed_ns >= MEASURE_NS_MAX) {
        return 0;
    }
    return (uint64_t)(((wide)passed_ns << RATE_SHIFT) / passed_ticks);
}

static bool rates_agree(uint64_t one, uint64_t other)
{
    uint64_t apart = one > other ? one - other : other - one;

    return apart <= other / DRIFT_PARTS;
}

static void keep_rate(uint64_t measured)
{
    bool good = measured != 0 && (rate == 0 || rates_agree(measured, rate));

    rate = good ? measured : 0;
    stretch_ticks = good ? ((uint64_t)STRETCH_NS << RATE_SHIFT) / rate : 0;
}

/* The clock and the counter were read together: begins a new stretch, and a new measurement when
 * the one under way has lasted long enough. */
static void follow(uint64_t now_ns, uint64_t now_ticks)
{
    uint64_t measured = measured_rate(now_ns, now_ticks);

    if (measured == 0 || now_ns - origin_ns >= (rate == 0 ? MEASURE_NS : RENEW_NS)) {
        keep_rate(measured);
        origin_ns = now_ns;
        origin_ticks = now_ticks;
    }
    base_ns = now_ns;
    base_ticks = now_ticks;
}

static __attribute__((noinline)) uint64_t read_clock(void)
{
    uint64_t before, now_ns;

    if (!counter_good) {
        return bh_clock_read();
    }
    before = ticks();
    now_ns = bh_clock_read();
    /* interrupted in between, the two readings do not belong together: the next time, then */
    if (ticks() - before <= TOGETHER_TICKS) {
        follow(now_ns, before);
    }
    return now_ns;
}

void bh_clock_open(void)
{
    counter_good = counter_is_steady() && kernel_trusts_counter();
    (void)read_clock();
}

uint64_t bh_clock_ns(void)
{
    uint64_t passed = ticks() - base_ticks;
    uint64_t now_ns =
        BH_LIKELY(passed < stretch_ticks) ? base_ns + (passed * rate >> RATE_SHIFT) : read_clock();

    if (BH_UNLIKELY(now_ns < bh_live.last_ns)) {
        return bh_live.last_ns;
    }
    return bh_live.last_ns = now_ns;
}
