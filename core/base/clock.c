#include "core/base/clock.h"

#include <stdio.h>
#include <time.h>

#ifdef CLOCK_BOOTTIME
#define MONO_CLOCK CLOCK_BOOTTIME
#else
#define MONO_CLOCK CLOCK_MONOTONIC /* macOS: CLOCK_MONOTONIC goes on during sleep */
#endif

struct bh_mono bh_clock_mono(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(MONO_CLOCK, &now);
    return (struct bh_mono){(uint64_t)now.tv_sec * BH_NS_PER_S + (uint64_t)now.tv_nsec};
}

struct bh_wall bh_clock_wall(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (struct bh_wall){(int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000};
}

struct bh_anchor bh_clock_anchor(void)
{
    return (struct bh_anchor){bh_clock_mono(), bh_clock_wall()};
}

int64_t bh_clock_epoch_us(struct bh_anchor anchor, struct bh_mono at)
{
    /* floor, also for times before the anchor */
    int64_t difference_ns = (int64_t)(at.ns - anchor.mono.ns);
    int64_t us = difference_ns / 1000;
    if (difference_ns % 1000 < 0)
        us--;
    return anchor.wall.us + us;
}

void bh_clock_rfc3339(struct bh_wall at, char ret_text[static BH_CLOCK_RFC3339_SIZE])
{
    time_t seconds = (time_t)(at.us / 1000000);
    int64_t rest = at.us % 1000000;
    if (rest < 0) {
        rest += 1000000;
        seconds--;
    }
    struct tm utc = {0};
    (void)gmtime_r(&seconds, &utc);
    char text[64];
    (void)snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                   (utc.tm_year + 1900) % 10000, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                   utc.tm_min, utc.tm_sec, (int)(rest / 1000));
    (void)snprintf(ret_text, BH_CLOCK_RFC3339_SIZE, "%.24s", text);
}
