/* A random but legal history in a viz_log, with a model of what must hold after each event. */
#ifndef BH_TESTS_VIZ_RANDOM_H
#define BH_TESTS_VIZ_RANDOM_H

#include "viz_log.h"

#define VIZ_BUFFERS 64 /* per image */

struct viz_moment { /* the state after one event */
    uint64_t sequence;
    int64_t at_us;
    uint64_t active, reserved; /* over images that have not ended */
};

struct viz_random {
    struct viz_log log;
    uint64_t state;
    struct {
        uint64_t size[VIZ_BUFFERS];
        uint8_t held[VIZ_BUFFERS]; /* 0 nothing, 1 active, 2 cached */
        uint64_t active, cached;
        bool ended;
    } images[8]; /* by id */
    uint32_t stacks[16], primitives[8];
    struct {
        uint64_t sequence;
        uint32_t image;
    } unlinked[32];
    uint32_t unlinked_count;
    struct viz_moment *moments; /* [i] after event i + 1 */
    size_t moment_count;
};

static inline uint64_t viz_random_next(struct viz_random *random)
{
    random->state ^= random->state << 13;
    random->state ^= random->state >> 7;
    random->state ^= random->state << 17;
    return random->state;
}

static inline uint64_t viz_random_below(struct viz_random *random, uint64_t limit)
{
    return viz_random_next(random) % limit;
}

static inline void viz_random_open(struct viz_random *random, uint64_t seed, size_t most)
{
    memset(random, 0, sizeof *random);
    random->state = seed * 0x9e3779b97f4a7c15ull + 1;
    random->moments = calloc(most, sizeof *random->moments);
    assert_non_null(random->moments);
    viz_log_open(&random->log);
    for (uint32_t i = 0; i < 8; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "Primitive%u", i);
        random->primitives[i] = viz_log_string(&random->log, name);
    }
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t frames[3];
        for (uint32_t j = 0; j < 3; j++) /* some stacks are equal by content */
            frames[j] = viz_log_frame(&random->log, "/home/ada/m.py", "f", i % 12 + j);
        random->stacks[i] = viz_log_stack(&random->log, frames, 3);
    }
    viz_log_image(&random->log, 100);
}

static inline void viz_random_note(struct viz_random *random)
{
    struct viz_moment moment = {.sequence = random->log.sequence};
    uint64_t at_ns = random->log.now_ns - random->log.step_ns - VIZ_BOOT_NS;
    moment.at_us = VIZ_EPOCH_US + (int64_t)(at_ns / 1000);
    for (int i = 0; i < 8; i++) {
        if (random->images[i].ended)
            continue;
        moment.active += random->images[i].active;
        moment.reserved += random->images[i].active + random->images[i].cached;
    }
    random->moments[random->moment_count++] = moment;
}

static inline void viz_random_alloc(struct viz_random *random, uint32_t image, uint32_t slot)
{
    bool cached = random->images[image].held[slot] == 2;
    uint64_t size = cached ? random->images[image].size[slot]
                           : 1 + viz_random_below(random, 1u << viz_random_below(random, 24));
    enum bh_evlog_kind kind = cached                              ? BH_EVLOG_ALLOC_REUSE
                              : viz_random_below(random, 10) == 0 ? BH_EVLOG_ALLOC_MAKE_BUFFER
                                                                  : BH_EVLOG_ALLOC_NEW;
    if (cached)
        random->images[image].cached -= size;
    random->images[image].size[slot] = size;
    random->images[image].held[slot] = 1;
    random->images[image].active += size;
    uint64_t sequence = viz_log_event(&random->log, kind, 0x10000 + slot * 64, size,
                                      1 + viz_random_below(random, size));
    if (random->unlinked_count < 32 && viz_random_below(random, 8)) {
        random->unlinked[random->unlinked_count].sequence = sequence;
        random->unlinked[random->unlinked_count++].image = image;
    }
}

static inline void viz_random_free(struct viz_random *random, uint32_t image, uint32_t slot)
{
    uint64_t size = random->images[image].size[slot];
    bool cached = random->images[image].held[slot] == 2;
    bool keep = !cached && viz_random_below(random, 3);
    enum bh_evlog_kind kind = cached ? BH_EVLOG_CACHE_TO_OS
                              : keep ? BH_EVLOG_FREE_TO_CACHE
                                     : BH_EVLOG_FREE_TO_OS;
    if (cached)
        random->images[image].cached -= size;
    else
        random->images[image].active -= size;
    if (keep)
        random->images[image].cached += size;
    random->images[image].held[slot] = keep ? 2 : 0;
    viz_log_event(&random->log, kind, 0x10000 + slot * 64, size, size);
}

static inline void viz_random_link(struct viz_random *random)
{
    if (random->unlinked_count == 0)
        return;
    uint32_t at = (uint32_t)viz_random_below(random, random->unlinked_count);
    uint32_t image = random->log.image;
    random->log.image = random->unlinked[at].image;
    viz_log_link(&random->log, random->unlinked[at].sequence,
                 random->stacks[viz_random_below(random, 16)],
                 random->primitives[viz_random_below(random, 8)], 0);
    random->log.image = image;
    random->unlinked[at] = random->unlinked[--random->unlinked_count];
}

/* One event, sometimes a new process, the end of one, or a segment's end. */
static inline void viz_random_step(struct viz_random *random)
{
    uint64_t choice = viz_random_below(random, 1000);
    struct viz_log *log = &random->log;
    log->step_ns = viz_random_below(random, 3) ? 700 : 0;
    if (choice == 0 && log->images < 7)
        viz_log_image(log, 100 + (int)log->images);
    if (choice == 1 && log->images > 2 && !random->images[2].ended) {
        random->images[2].ended = true;
        viz_log_add(log,
                    (struct bh_evlog_record){.kind = BH_EVLOG_IMAGE_END, .image = 2, .stream = -1});
    }
    if (choice < 20)
        assert_int_equal(bh_evlog_writer_flush(log->writer), 0);
    do
        log->image = 1 + (uint32_t)viz_random_below(random, log->images);
    while (random->images[log->image].ended);
    uint32_t slot = (uint32_t)viz_random_below(random, VIZ_BUFFERS);
    uint8_t held = random->images[log->image].held[slot];
    if (held == 0 || (held == 2 && viz_random_below(random, 4)))
        viz_random_alloc(random, log->image, slot);
    else
        viz_random_free(random, log->image, slot);
    viz_random_note(random);
    while (viz_random_below(random, 3) == 0)
        viz_random_link(random);
}

static inline void viz_random_close(struct viz_random *random)
{
    viz_log_close(&random->log);
    free(random->moments);
}

#endif
