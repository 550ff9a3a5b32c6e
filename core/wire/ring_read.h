/*
 * The reader's side of a recorder ring (ring.h). Used by the scribe's drain, by tools and tests;
 * one thread. The file belongs to the job, which may write any bytes into it, cut it or replace it:
 * it is read with pread() into the caller's memory, never mapped, so nothing the job does can fault
 * the reader, and every number is checked before use. Only `control` and `tail` are written.
 *
 * Ownership: the reader owns its descriptor. Failures: BH_E_MALFORMED the content breaks the layout
 * (give the ring up); BH_E_VERSION another version or an unknown required flag; BH_E_TRUNCATED the
 * file is shorter than it says; converted errno values. Bytes and tickets as in ring.h.
 */
#ifndef BH_WIRE_RING_READ_H
#define BH_WIRE_RING_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/wire/ring.h"

#define BH_RING_NAME_SIZE 64

/* `<pid>-<starttoken>-<n>.ring`: decimal without leading zeros. */
struct bh_ring_name {
    uint32_t pid;
    uint64_t start_token;
    uint32_t image;
};
bool bh_ring_name_parse(const char *name, struct bh_ring_name *ret_name);

struct bh_ring_reader {
    int fd;
    /* As found and checked when the ring was opened; constant members only are meaningful. */
    struct bh_ring_header facts;
    uint64_t next;       /* ticket to be read next */
    uint64_t arena_read; /* bytes of the arena already read */
};

/* Opens NAME below dirfd: a regular file of our own, not a link, whose header agrees with its name.
 * Reading starts at the header's tail, the arena at its beginning. */
int bh_ring_open(int dirfd, const char *name, struct bh_ring_reader *ret_reader,
                 struct bh_diag *diag);
void bh_ring_close(struct bh_ring_reader *reader);

/* The header as it is now. head and arena_used are checked against what was seen before; texts are
 * terminated. The constant members come from `facts`, whatever the file says by now. */
int bh_ring_header(struct bh_ring_reader *reader, struct bh_ring_header *ret_header);

/* Copies the ready slots from `next` on, at most `max` of them (and never across the ring's end),
 * stopping at the first that is not ready; head is the one from bh_ring_header. Advances `next`.
 * ret_count 0: nothing is ready. */
int bh_ring_slots(struct bh_ring_reader *reader, uint64_t head, struct bh_ring_slot *ret_slots,
                  size_t max, size_t *ret_count);
/* Steps over the slot at `next`, which will never become ready (its process is gone). */
void bh_ring_skip(struct bh_ring_reader *reader);

/* Is the ring's process of another pid namespace than this one, so that its pid says nothing here
 * and the lock on the file has to? */
bool bh_ring_foreign(const struct bh_ring_reader *reader);
/* Is the lock on the file held, so that its process lives? */
bool bh_ring_held(const struct bh_ring_reader *reader);

/* Tells the producer that every slot before `tail` (at most `next`) is free. */
int bh_ring_release(const struct bh_ring_reader *reader, uint64_t tail);
int bh_ring_control(const struct bh_ring_reader *reader, bool on);

/* One arena record. bytes points into the caller's buffer. */
struct bh_ring_record {
    uint16_t kind; /* enum bh_ring_arena_kind, or a later one (skip it) */
    uint32_t id;
    const unsigned char *bytes;    /* STRING: text; STACK: count little-endian u32 */
    uint32_t count;                /* STRING: bytes; STACK: frames */
    uint32_t file, function, line; /* FRAME */
};
#define BH_RING_RECORD_BYTES_MAX 8192u

/* Reads as many bytes of the arena as fit; the caller takes records off with bh_ring_record and
 * then says with bh_ring_arena_advance how many bytes they took. used: the header's arena_used. */
int bh_ring_arena(const struct bh_ring_reader *reader, uint64_t used, unsigned char *ret_bytes,
                  size_t size, size_t *ret_length);
/* Decodes the record at the start of bytes; returns its length, 0 when it does not lie there whole
 * (read on from there), or BH_E_MALFORMED. */
int bh_ring_record(const unsigned char *bytes, size_t length, struct bh_ring_record *ret_record);
void bh_ring_arena_advance(struct bh_ring_reader *reader, size_t length);

#endif
