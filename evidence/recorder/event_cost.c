/*
 * Nanoseconds per slot written into a ring, timestamp included: the recorder's own emit.c, with the
 * reader's part (moving the tail) done now and then by the same thread. Prints one number per
 * round.
 *
 *     gcc -O2 -I SOURCE event_cost.c -o event_cost -lpthread && ./event_cost FOLDER ROUNDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/record/clock.c"
#include "core/record/emit.c"
#include "core/record/life.c"
#include "core/record/lock.c"
#include "core/record/map.c"
#include "core/record/mirror.c"

struct bh_mlx bh_mlx;
pthread_mutex_t bh_bind_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t bh_desc_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t bh_names_lock = PTHREAD_MUTEX_INITIALIZER;

void bh_attach_leave(void)
{
}

#define EVENTS 100000u

int main(int argc, char **argv)
{
    struct bh_options options = {
        .slots = BH_RING_SLOTS_DEFAULT, .arena_bytes = BH_RING_ARENA_BYTES_DEFAULT, .depth = 32};
    struct bh_ring_slot slot = {.kind = BH_RING_ALLOC_NEW, .size_bytes = 4096, .stream = 0};
    int round, rounds = argc > 2 ? atoi(argv[2]) : 50;

    if (argc < 2) {
        return 64;
    }
    (void)snprintf(options.dir, sizeof(options.dir), "%s", argv[1]);
    if (bh_emit_open(&options, 0) != 0) {
        perror("ring");
        return 1;
    }
    bh_clock_open();
    for (round = 0; round < rounds; round++) {
        struct timespec from, to;
        unsigned at;

        clock_gettime(CLOCK_MONOTONIC, &from);
        for (at = 0; at < EVENTS; at++) {
            bh_lock_take(&bh_live.lock);
            slot.address = at;
            (void)bh_emit_slot(&slot);
            bh_lock_give(&bh_live.lock);
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        bh_emit.header->tail = bh_live.head;
        bh_emit.header->tail_check = ~bh_live.head;
        printf("%.2f\n",
               ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
                   EVENTS);
    }
    return bh_emit.header->lost == 0 ? 0 : 1;
}
