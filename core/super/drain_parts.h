/* Private to the drain: its tables and images. See drain.h for what it is for. All of it runs in
 * the scribe, one thread, and may allocate. */
#ifndef BH_SUPER_DRAIN_PARTS_H
#define BH_SUPER_DRAIN_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/super/drain.h"
#include "core/wire/ring_read.h"

/* ---- drain_tables.c ---------------------------------------------------------------- */

/* u64 -> u32, 0 = absent; key 0 is stored as 1. */
struct bh_drain_map {
    struct bh_drain_pair {
        uint64_t key;
        uint32_t value;
    } * pairs;
    size_t mask, count;
};
uint32_t bh_drain_map_get(const struct bh_drain_map *map, uint64_t key);
int bh_drain_map_put(struct bh_drain_map *map, uint64_t key, uint32_t value);
void bh_drain_map_done(struct bh_drain_map *map);

/* 64-bit hash of bytes, seeded. */
uint64_t bh_drain_hash(uint64_t seed, const void *data, size_t length);

/* Job-wide ids: equal content gets one id, whichever process it came from. A new one is written to
 * the log at once. next_*: ids not given out yet. */
struct bh_drain_ids {
    struct bh_drain_map strings, frames, stacks;
    uint32_t next_string, next_frame, next_stack;
};
struct bh_drain_log;
int bh_drain_string(struct bh_drain_log *log, const char *bytes, size_t length, uint32_t *ret_id);
int bh_drain_frame(struct bh_drain_log *log, uint32_t file, uint32_t function, uint32_t line,
                   uint32_t *ret_id);
int bh_drain_stack(struct bh_drain_log *log, const uint32_t *frames, uint32_t count,
                   uint32_t *ret_id);
/* Learns a definition that is in the log already. */
int bh_drain_ids_learn(struct bh_drain_ids *ids, const struct bh_evlog_record *record);
void bh_drain_ids_done(struct bh_drain_ids *ids);

/* Local id -> job-wide id, dense from 1. */
struct bh_drain_list {
    uint32_t *ids;
    uint32_t count, capacity;
};
int bh_drain_list_add(struct bh_drain_list *list, uint32_t id);
static inline uint32_t bh_drain_list_at(const struct bh_drain_list *list, uint32_t local)
{
    return local == 0 || local > list->count ? 0 : list->ids[local - 1];
}
void bh_drain_list_done(struct bh_drain_list *list);

/* ---- drain_live.c ------------------------------------------------------------------ */

enum bh_drain_place {
    BH_DRAIN_NOWHERE = 0,
    BH_DRAIN_ACTIVE,
    BH_DRAIN_CACHED,
};

#define BH_DRAIN_TICKET_ANY UINT64_MAX /* taken over from a log: the slot is not known */

/* One buffer that an image holds, as the log's readers see it. */
struct bh_drain_buffer {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t sequence; /* of its last allocation */
    uint64_t ticket;
    enum bh_drain_place place;
};

struct bh_drain_live {
    struct bh_drain_buffer *buffers;
    size_t mask, count;
    bool overflowed; /* more buffers than we follow: no repairs from then on */
};
#define BH_DRAIN_LIVE_MAX ((size_t)1 << 20)

struct bh_drain_buffer *bh_drain_live_find(const struct bh_drain_live *live, uint64_t address);
/* Adds or finds; NULL when memory is out or there are too many (overflowed). */
struct bh_drain_buffer *bh_drain_live_put(struct bh_drain_live *live, uint64_t address);
void bh_drain_live_remove(struct bh_drain_live *live, uint64_t address);
void bh_drain_live_clear(struct bh_drain_live *live);
void bh_drain_live_done(struct bh_drain_live *live);

/* What an event does to the history of its address. */
struct bh_drain_repair {
    enum bh_evlog_kind first; /* event to insert before it, 0 = none */
    enum bh_evlog_kind kind;  /* what the event is recorded as, 0 = not at all */
};
/* Pure. place and size_bytes: of the buffer as known so far. */
struct bh_drain_repair bh_drain_live_judge(enum bh_evlog_kind kind, enum bh_drain_place place,
                                           bool same_size);

/* ---- the log: sequence, limits, writer --------------------------------------------- */

struct bh_drain_log {
    struct bh_evlog_writer *writer;
    struct bh_drain_ids ids;
    uint64_t next_sequence;
    uint64_t events; /* written */
    uint64_t lost;   /* by rings, or not written because the log failed */
    uint64_t holes;
    uint64_t trace_max_bytes;
    uint64_t dropped; /* events that came after the log was full */
    bool full;
    bool dirty; /* something was added since the last flush */
    int error;  /* sticky */
};
/* Adds a record; an event gets its sequence here (record->sequence is set). */
int bh_drain_log_add(struct bh_drain_log *log, struct bh_evlog_record *record);
/* From now on nothing is written; said once. */
void bh_drain_log_failed(struct bh_drain_log *log, int error);

/* ---- drain_image.c: one ring ------------------------------------------------------- */

#define BH_DRAIN_BATCH 512u

struct bh_drain_image {
    struct bh_drain_image *next, *next_ready;
    struct bh_ring_reader reader;
    struct bh_ring_header header; /* as of this step */
    uint32_t id;                  /* in the log; 0 = refused, nothing is logged */
    bool ended, corrupt, gone;    /* gone: the process is, found before the header was read */
    bool control_on;
    bool foreign;  /* its pid is of another pid namespace */
    bool unmapped; /* the process has become another program, as far as can be seen */
    struct bh_drain_list strings, frames, stacks;
    struct bh_drain_live live;
    struct bh_ring_slot *batch; /* BH_DRAIN_BATCH slots, taken from the ring, not yet applied */
    size_t batch_at, batch_count;
    uint64_t lost_told;   /* of header.lost, how many LOST records have said */
    uint64_t holes;       /* slots that will never be filled */
    uint64_t released;    /* tail as the ring knows it */
    uint64_t told;        /* ticket up to which the log says that it has the slots */
    bool moved;           /* slots were taken since then */
    uint64_t image_token; /* of the process when it was first asked for, 0 = not yet */
    uint64_t asked_ns;    /* when the system was last asked whether the process lives */
    struct bh_ring_name name;
};

/* Reads the header and the arena. An error means that the ring is given up. */
int bh_drain_image_refresh(struct bh_drain_image *image, struct bh_drain_log *log,
                           unsigned char *scratch, size_t scratch_size);
/* Makes the next slot available; false when nothing is ready. */
bool bh_drain_image_peek(struct bh_drain_image *image, struct bh_ring_slot **ret_slot);
/* The ticket before which every slot was taken. */
static inline uint64_t bh_drain_image_taken(const struct bh_drain_image *image)
{
    return image->reader.next - (image->batch_count - image->batch_at);
}
/* Applies it. now: no event is later. */
int bh_drain_image_take(struct bh_drain_image *image, struct bh_drain_log *log, struct bh_mono now);
/* The process is gone and nothing is ready: steps over the next slot. False when none is left. */
bool bh_drain_image_skip_hole(struct bh_drain_image *image);
/* The process is gone and every slot was taken or skipped: HOLE, LOST, IMAGE_END. */
int bh_drain_image_end(struct bh_drain_image *image, struct bh_drain_log *log, struct bh_mono now);
void bh_drain_image_free(struct bh_drain_image *image);
/* What an event in the log does to the image's buffers. */
int bh_drain_image_learn(struct bh_drain_image *image, const struct bh_evlog_record *record);

/* ---- drain.c ----------------------------------------------------------------------- */

#define BH_DRAIN_SCRATCH_BYTES 65536u
#define BH_DRAIN_STEP_SLOTS    65536u
#define BH_DRAIN_IMAGES_MAX    1024u

struct bh_drain {
    int rings_fd, evlog_fd; /* the caller's */
    struct bh_drain_log log;
    struct bh_drain_image *images;
    size_t image_count;
    uint32_t next_image;
    size_t moved; /* images of which slots were taken since the log was told how far */
    bool recording;
    bool attached, refused, lossy; /* seen so far */
    bool mlx_seen;                 /* in a process, while there was no ring */
    char reason[160];              /* of the first image that refused or failed */
    char mlx_version[32];
    uint64_t folder_changed_ns; /* mtime of the folder when it was last read */
    uint64_t stacks_lost_ended; /* of images that are gone */
    unsigned char *scratch;
};

struct bh_drain_image *bh_drain_find(struct bh_drain *drain, const struct bh_ring_name *name);
/* Adds an image without a reader (fd -1); NULL without memory or beyond the limit. */
struct bh_drain_image *bh_drain_add(struct bh_drain *drain, const struct bh_ring_name *name);
/* drain_rings.c */
void bh_drain_look_for_rings(struct bh_drain *drain);
void bh_drain_refresh(struct bh_drain *drain, struct bh_drain_image *image, bool all_gone);
/* This ring is not read any more; its process goes on undisturbed. */
void bh_drain_give_up(struct bh_drain *drain, struct bh_drain_image *image, const char *why);
/* What was taken is in the log: the slots are free, rings of ended images are removed. */
void bh_drain_release(struct bh_drain *drain);
/* drain_resume.c: takes up the log of a scribe that died. */
int bh_drain_resume(struct bh_drain *drain, struct bh_diag *diag);

#endif
