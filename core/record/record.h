/*
 * What the parts of libbulkhead-record.so share. The library runs inside the job, on the job's own
 * threads, between MLX and its callers: it copies bytes and leaves. It never exits, prints, waits
 * for the GIL, creates Python objects on the way, or calls malloc while it holds its lock; errno is
 * kept; what it cannot do it says in the ring's header and then gets out of the way.
 *
 * Phases. UNTRIED until the first allocator() call, then ATTACHED or REFUSED (says why in a ring of
 * one page) or INERT (no BULKHEAD_RING_DIR: nothing is touched). ATTACHED may become FAILED.
 *
 * Locks, in this order: `bh_life_lock` serialises every allocator event, spans the real call and
 * makes the mirror exact; `bh_arena_lock` guards the arena and every intern table.
 */
#ifndef BH_RECORD_RECORD_H
#define BH_RECORD_RECORD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire/ring.h"

#define BH_LIKELY(x)   __builtin_expect(!!(x), 1)
#define BH_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define BH_NO_TICKET   UINT64_MAX

enum bh_phase {
    BH_PHASE_UNTRIED = 0,
    BH_PHASE_ATTACHING,
    BH_PHASE_ATTACHED,
    BH_PHASE_REFUSED,
    BH_PHASE_INERT,
    BH_PHASE_FAILED,
};

/* ---- options.c: the environment ---------------------------------------------------- */

struct bh_options {
    char dir[3072];
    uint32_t stacks; /* enum bh_ring_stacks */
    uint32_t depth;
    uint32_t slots;
    uint64_t arena_bytes;
    uint64_t min_size_bytes;
    bool start_off; /* on=0: recording waits to be switched on */
    bool check;     /* compare the sums with MLX's counters after every event; for tests */
};

/* Returns 1 with *ret_options filled, 0 when recording was not asked for, -1 when the text is not
 * understood; dir is valid then, and *ret_reason says what is wrong. */
int bh_options_read(struct bh_options *ret_options, const char **ret_reason);

/* ---- life.c: process-wide state --------------------------------------------------------- */

extern int bh_phase; /* enum bh_phase, atomic */
extern struct bh_options bh_options;
extern pthread_mutex_t bh_life_lock;
extern pthread_mutex_t bh_arena_lock;

static inline int bh_phase_get(void)
{
    return __atomic_load_n(&bh_phase, __ATOMIC_ACQUIRE);
}

void bh_phase_set(int phase);
uint32_t bh_life_thread(void); /* kernel thread id, cached */
int bh_life_watch_forks(void); /* once, at attach; 0 or -1 */
/* In a forked child: opens the child's own ring, keeping every id. Called under bh_life_lock. */
void bh_life_child_open(void);
extern bool bh_life_child_pending; /* a forked child that has not opened its ring yet */

/* ---- emit.c: the ring file --------------------------------------------------------- */

struct bh_emit {
    struct bh_ring_header *header; /* NULL: no ring (never opened, or forked child) */
    struct bh_ring_slot *slots;
    unsigned char *arena;
    uint64_t mask;
    uint64_t head;
    uint64_t tail; /* the reader's tail as last believed */
    uint64_t gap;  /* events lost since the last slot */
    uint64_t arena_used;
    uint64_t arena_bytes;
    uint32_t strings, frames, stacks; /* ids given out */
};
extern struct bh_emit bh_emit;

/* Creates, fills and maps this image's ring. Returns 0 or -1 (errno set; nothing is left behind).
 */
int bh_emit_open(const struct bh_options *options, uint32_t flags);
/* Leaves a ring of one page that says why. Best effort. */
void bh_emit_refuse(const struct bh_options *options, const char *reason);
void bh_emit_unmap(void);
/* Events are missing since the last slot: says so, once enough room is there for the baseline of
 * `buffers` that must follow. True when the gap is closed. */
bool bh_emit_close_gap(uint64_t buffers);
/* Stamps time, thread and sequence on *slot and publishes it. Returns the ticket, or BH_NO_TICKET
 * when the ring is full (counted). Under bh_life_lock. */
uint64_t bh_emit_slot(const struct bh_ring_slot *slot);
uint64_t bh_emit_link(const struct bh_ring_slot *slot);
static inline bool bh_emit_wanted(void)
{
    return bh_emit.header != NULL &&
           (__atomic_load_n(&bh_emit.header->control, __ATOMIC_RELAXED) & BH_RING_CONTROL_ON) != 0;
}
/* Arena records; each returns the new id, or 0 when the arena is full. Under bh_arena_lock. */
uint32_t bh_emit_string(const char *bytes, size_t length);
uint32_t bh_emit_frame(uint32_t file, uint32_t function, uint32_t line);
uint32_t bh_emit_stack(const uint32_t *frames, uint32_t count);
void bh_emit_text(char *ret_text, size_t size, const char *text);

/* ---- map.c: u64 -> u32 in anonymous pages ----------------------------------------------- */

struct bh_map_entry {
    uint64_t key; /* 0 = free */
    uint64_t value;
};
struct bh_map {
    struct bh_map_entry *entries;
    uint64_t mask;
    uint64_t count;
};

static inline uint64_t bh_map_hash(uint64_t key)
{
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15u;
    return key ^ key >> 29;
}

/* The value of a key, 0 when absent. Safe beside one writer only under the same lock. */
static inline uint64_t bh_map_get(const struct bh_map *map, uint64_t key)
{
    uint64_t at;

    if (BH_UNLIKELY(map->entries == NULL)) {
        return 0;
    }
    for (at = bh_map_hash(key) & map->mask; map->entries[at].key != 0; at = (at + 1) & map->mask) {
        if (map->entries[at].key == key) {
            return map->entries[at].value;
        }
    }
    return 0;
}

int bh_map_put(struct bh_map *map, uint64_t key, uint64_t value); /* 0, or -1 without memory */
void bh_map_remove(struct bh_map *map, uint64_t key);
/* Anonymous zeroed pages; NULL on failure. */
void *bh_map_pages(size_t bytes);

/* ---- mirror.c: every buffer the allocator holds ------------------------------------ */

enum bh_buffer_state {
    BH_BUFFER_FREE = 0, /* pool entry not in use */
    BH_BUFFER_ACTIVE,
    BH_BUFFER_CACHED,
};

struct bh_buffer {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t requested_bytes;
    uint64_t ticket; /* of its last allocation's slot, BH_NO_TICKET when that was not written */
    uint32_t stack;
    uint32_t primitive;
    int32_t stream;
    uint32_t older; /* cached: neighbours in order of age; free: the next free entry */
    uint32_t newer;
    uint32_t index; /* its own */
    uint8_t state;  /* enum bh_buffer_state */
    uint8_t device;
    bool linked;  /* an array took it: primitive and stack are known */
    bool foreign; /* from make_buffer: not counted by MLX */
};

struct bh_mirror {
    uint64_t active_bytes;
    uint64_t cache_bytes;
    uint64_t buffers;
    uint32_t oldest, newest; /* cached buffers, 0 = none */
};
extern struct bh_mirror bh_mirror;

struct bh_buffer *bh_mirror_find(uint64_t address);
struct bh_buffer *bh_mirror_add(uint64_t address); /* NULL without memory */
void bh_mirror_drop(struct bh_buffer *buffer);
void bh_mirror_to_cache(struct bh_buffer *buffer);
void bh_mirror_to_active(struct bh_buffer *buffer);
struct bh_buffer *bh_mirror_oldest(void);
struct bh_buffer *bh_mirror_at(uint32_t index); /* 1 .. bh_mirror_end()-1, any state */
uint32_t bh_mirror_end(void);

/* ---- names.c: interned strings and primitive names --------------------------------- */

uint32_t bh_names_intern(const char *bytes, size_t length); /* under bh_arena_lock */
/* String id of a Primitive's name, 0 = unknown. Takes bh_arena_lock. */
uint32_t bh_names_primitive(void *primitive);
/* Learns how to ask a Primitive for its name from one specimen; cheap once it knows. */
void bh_names_learn(void *primitive);
/* name() was found where it is known to be, so the other slots are where they are known to be. */
bool bh_names_learned(void);
/* Is this the table of one of libmlx's classes of primitives? */
bool bh_names_is_class(const uintptr_t *table);
extern pthread_mutex_t bh_names_lock; /* around calls of name(), which may build its text */

/* ---- python.c / stack.c: who asked ------------------------------------------------- */

/* Chooses a walk scheme by a self-test. Needs the GIL; returns enum bh_ring_walk. */
uint32_t bh_python_open(char *ret_version, size_t size);
extern uint32_t bh_python_walk; /* enum bh_ring_walk */

struct bh_python_frame {
    uintptr_t code;
    uintptr_t at; /* instruction pointer, or line with the public scheme */
};
/* Innermost first, at most depth; 0 when this thread runs no Python. */
uint32_t bh_python_frames(struct bh_python_frame *ret_frames, uint32_t depth);
/* Hash of the same walk, 0 when there is no frame. */
uint64_t bh_python_hash(uint32_t depth);
/* File, function, line of one frame; the texts are borrowed from the code object, which is kept
 * alive for good. */
struct bh_python_place {
    const char *file, *function;
    size_t file_bytes, function_bytes;
    uint32_t line;
};
void bh_python_place(const struct bh_python_frame *frame, struct bh_python_place *ret_place);
void bh_python_keep(uintptr_t code);

/* Id of the calling thread's Python stack, 0 = none. */
uint32_t bh_stack_capture(void);

/* ---- desc.c: array nodes ----------------------------------------------------------- */

void bh_desc_open(void); /* once, before anything is learned; uses malloc, takes no lock */
/* Returns the stack id of the place that made it. */
uint32_t bh_desc_created(void *desc); /* ArrayDesc::init has run */
void bh_desc_before_ctor(void *desc); /* storage is raw */
void bh_desc_after_ctor(void *desc, void *primitive);
void bh_desc_dying(void *desc);
extern pthread_mutex_t bh_desc_lock;
extern bool bh_desc_settled; /* layout learned: the two constructor calls may be skipped */
struct bh_desc_facts {
    uint32_t stack;
    int32_t stream; /* -1 = unknown */
    void *primitive;
    uint8_t device; /* BH_RING_DEVICE_* */
};
void bh_desc_read(void *desc, struct bh_desc_facts *ret_facts);

/* ---- op.c: the operation that is being evaluated ---------------------------------------- */

struct bh_op_facts {
    uint32_t stack, primitive;
    int32_t stream;
    uint8_t device;
};
/* A new node's primitive: from now on its evaluation is noticed. */
void bh_op_watch(void *primitive);
void bh_op_created(uint32_t stack); /* a node was made here */
void bh_op_leaf(void);              /* and it is a leaf: its data comes next */
void bh_op_leaf_filled(void);
/* Facts of the operation that this thread evaluates, or of the leaf that it makes; false when there
 * is neither. Not under a lock. */
bool bh_op_facts(struct bh_op_facts *ret_facts);

/* ---- events.c: slots out of buffers ------------------------------------------------ */

extern bool bh_events_recording; /* BASELINE_BEGIN was written and OFF was not */
/* Writes an event about a buffer, unless recording is off or the buffer is a small one. */
uint64_t bh_events_write(enum bh_ring_kind kind, const struct bh_buffer *buffer);
/* Follows the control word, a gap that can be closed, and a forked child's need for a ring of its
 * own, which it gets when may_open. */
void bh_events_follow_control(bool may_open);
void bh_events_count_small(const struct bh_buffer *buffer, int sign); /* +1 allocated, -1 freed */
void bh_events_check(void);                                           /* the oracle */

/* ---- track.c: events --------------------------------------------------------------- */

void *bh_track_malloc(void *self, size_t bytes);
void bh_track_free(void *self, void *buffer);
void *bh_track_make_buffer(void *self, void *data, size_t bytes);
void bh_track_release(void *self, void *buffer);
void bh_track_link(uint64_t buffer, void *desc);
void bh_track_flush_begin(void); /* another thread may see the cache shrink from here .. */
void bh_track_flush_end(void);   /* .. to here, where the mirror catches up */
void bh_track_mark(const char *label);
extern int bh_track_flushes; /* clear_cache and the like in flight, atomic */

/* ---- attach.c: libmlx -------------------------------------------------------------- */

struct bh_mlx {
    void *(*allocator)(void);
    void (*desc_init)(void *);
    void (*desc_dtor)(void *);
    void (*desc_ctor_leaf)(void *, void *, uint64_t);
    void (*desc_ctor_node)(void *, void *, uint64_t, void *, void *);
    void (*set_data)(void *, void *);
    void (*set_data_long)(void *, void *, uint64_t, void *, uint64_t, int64_t);
    void (*set_data_old)(void *, uint64_t, void *);
    void (*set_data_long_0_32)(void *, uint64_t, uint64_t, void *, uint64_t, int64_t, void *);
    void (*set_data_long_0_31)(void *, uint64_t, uint64_t, void *, uint64_t, void *);
    size_t (*get_active_memory)(void);
    size_t (*get_cache_memory)(void);
    size_t (*set_cache_limit)(size_t);
    void (*clear_cache)(void);
    void (*reset_peak_memory)(void);
    const char *(*version)(void);
    /* the allocator's own table */
    void *(*malloc)(void *, size_t);
    void (*free)(void *, void *);
    size_t (*size)(void *, void *);
    void *(*make_buffer)(void *, void *, size_t);
    void (*release)(void *, void *);
    void *object;
    const uint64_t *cache_word; /* MLX's own count of cached bytes, NULL = ask get_cache_memory */
    uintptr_t low, high;        /* where libmlx lies in memory */
    uintptr_t text_low, text_high; /* its code */
};
extern struct bh_mlx bh_mlx;

void bh_attach_resolve(void); /* finds the originals; idempotent */
void *bh_attach_first(void);  /* the first allocator() call */

#endif
