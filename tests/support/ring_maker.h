/* Builds ring files by hand, so that tests say exactly what a recorder, or a liar, wrote.
 * Header-only; a test is the producer: it fills slots and arena and publishes them. */
#ifndef BH_TESTS_RING_MAKER_H
#define BH_TESTS_RING_MAKER_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/wire/ring.h"

struct ring_maker {
    char folder[64];
    char name[64];
    int dirfd;
    struct bh_ring_header *header;
    struct bh_ring_slot *slots;
    unsigned char *arena;
    uint32_t strings, frames, stacks;
};

static inline void ring_maker_folder(struct ring_maker *maker)
{
    (void)snprintf(maker->folder, sizeof(maker->folder), "/tmp/bh-rings-XXXXXX");
    if (mkdtemp(maker->folder) == NULL) {
        abort();
    }
    maker->dirfd = open(maker->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* slot_count 0 makes a refused ring. */
static inline void ring_maker_file(struct ring_maker *maker, uint32_t pid, uint64_t token,
                                   uint32_t image, uint32_t slot_count, uint32_t arena_bytes)
{
    uint64_t slots_bytes = (uint64_t)slot_count * BH_RING_SLOT_BYTES;
    uint64_t bytes = BH_RING_HEADER_BYTES + slots_bytes + (slot_count == 0 ? 0 : arena_bytes);
    int fd;

    (void)snprintf(maker->name, sizeof(maker->name), "%u-%llu-%u.ring", pid,
                   (unsigned long long)token, image);
    fd = openat(maker->dirfd, maker->name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        abort();
    }
    maker->header = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    maker->slots =
        (struct bh_ring_slot *)(void *)((unsigned char *)maker->header + BH_RING_HEADER_BYTES);
    maker->arena = (unsigned char *)maker->slots + slots_bytes;
    maker->strings = maker->frames = maker->stacks = 0;
    *maker->header = (struct bh_ring_header){
        .magic = BH_RING_MAGIC,
        .version = BH_RING_VERSION,
        .header_bytes = BH_RING_HEADER_BYTES,
        .slot_count = slot_count,
        .arena_offset = slot_count == 0 ? 0 : BH_RING_HEADER_BYTES + slots_bytes,
        .arena_bytes = slot_count == 0 ? 0 : arena_bytes,
        .file_bytes = bytes,
        .pid = pid,
        .image = image,
        .start_token = token,
        .control = BH_RING_CONTROL_ON,
        .tail_check = ~(uint64_t)0,
        .state = slot_count == 0 ? BH_RING_STATE_REFUSED : BH_RING_STATE_ATTACHED,
        .mlx_version = "0.32.4",
    };
}

static inline void ring_maker_unmap(struct ring_maker *maker)
{
    (void)munmap(maker->header, maker->header->file_bytes);
    maker->header = NULL;
}

/* Appends a slot; returns its ticket. */
static inline uint64_t ring_maker_slot(struct ring_maker *maker, struct bh_ring_slot slot)
{
    uint64_t ticket = maker->header->head++;
    struct bh_ring_slot *target = &maker->slots[ticket & (maker->header->slot_count - 1)];

    slot.sequence = 0;
    slot.time_ns = slot.time_ns == 0 ? 1000 + ticket : slot.time_ns;
    *target = slot;
    __atomic_store_n(&target->sequence, ticket + 1, __ATOMIC_RELEASE);
    return ticket;
}

/* A ticket that is taken and never filled. */
static inline void ring_maker_hole(struct ring_maker *maker)
{
    maker->header->head++;
}

static inline uint64_t ring_maker_event(struct ring_maker *maker, enum bh_ring_kind kind,
                                        uint64_t address, uint64_t size_bytes)
{
    return ring_maker_slot(maker, (struct bh_ring_slot){.kind = (uint8_t)kind,
                                                        .address = address,
                                                        .size_bytes = size_bytes,
                                                        .requested_bytes = size_bytes,
                                                        .stream = -1});
}

static inline unsigned char *ring_maker_record(struct ring_maker *maker, uint16_t kind,
                                               uint32_t bytes, uint32_t id, uint32_t count)
{
    unsigned char *record = maker->arena + maker->header->arena_used;
    uint32_t whole = (bytes + 7) & ~7u;

    memset(record, 0, whole);
    memcpy(record, &kind, 2);
    memcpy(record + 4, &whole, 4);
    memcpy(record + 8, &id, 4);
    memcpy(record + 12, &count, 4);
    maker->header->arena_used += whole;
    return record;
}

static inline uint32_t ring_maker_string(struct ring_maker *maker, const char *text)
{
    uint32_t length = (uint32_t)strlen(text);
    unsigned char *record =
        ring_maker_record(maker, BH_RING_ARENA_STRING, 16 + length, ++maker->strings, length);

    memcpy(record + 16, text, length);
    return maker->strings;
}

static inline uint32_t ring_maker_frame(struct ring_maker *maker, uint32_t file, uint32_t function,
                                        uint32_t line)
{
    unsigned char *record =
        ring_maker_record(maker, BH_RING_ARENA_FRAME, 24, ++maker->frames, file);

    memcpy(record + 16, &function, 4);
    memcpy(record + 20, &line, 4);
    return maker->frames;
}

static inline uint32_t ring_maker_stack(struct ring_maker *maker, const uint32_t *frames,
                                        uint32_t count)
{
    unsigned char *record =
        ring_maker_record(maker, BH_RING_ARENA_STACK, 16 + count * 4, ++maker->stacks, count);

    memcpy(record + 16, frames, (size_t)count * 4);
    return maker->stacks;
}

static inline void ring_maker_remove_folder(struct ring_maker *maker)
{
    char command[128];

    (void)close(maker->dirfd);
    (void)snprintf(command, sizeof(command), "rm -rf %s", maker->folder);
    if (system(command) != 0) {
        abort();
    }
}

#endif
