/*
 * What the parts of libbulkhead-record.so share. The library runs inside the job, on the job's own
 * threads, between MLX and its callers: it copies bytes and leaves. It never exits, prints, waits
 * for the GIL, creates Python objects on the way, or calls malloc while it holds its lock; errno is
 * kept; what it cannot do it says in the ring's header and then gets out of the way.
 *
 * Phases. UNTRIED until the first allocator() call, then ATTACHED or REFUSED (says why in a ring of
 * one page) or INERT (no BULKHEAD_RING_DIR: nothing is touched). ATTACHED may become FAILED.
 *
 * Locks, in this order: `bh_live.lock` serialises every allocator event, spans the real call and
 * makes the mirror exact; `bh_desc_lock` and `bh_names_lock` guard what is learned of nodes and
 * primitives; `bh_arena_lock` guards the arena and every intern table; `bh_bind_lock` the slots
 * that calls go through.
 *
 * errno: the ways that every event takes touch it nowhere; whatever may fail in the system saves
 * it.
 */
#ifndef BH_RECORD_RECORD_H
#define BH_RECORD_RECORD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/record/lock.h"
#include "core/wire/ring.h"

#define BH_LIKELY(x)   __builtin_expect(!!(x), 1)
#define BH_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define BH_NO_TICKET   UINT64_MAX

/* What every event touches lies together: between two events a program's own data has driven out
 * of the nearest caches whatever is not used all the time. */
#define BH_HOT __attribute__((section("bh_hot")))

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
extern struct bh_lock bh_arena_lock;

/* What every event changes, in one cache line with the lock that guards it: MLX allocates on one
 * thread and frees on another, and each line that both write has to travel between their cores. */
struct bh_live {
    struct bh_lock lock;
    uint64_t head; /* slots handed out */
    uint64_t active_bytes, cache_bytes;
    uint64_t last_ns;        /* time of the last event */
    int64_t cache_bias;      /* MLX's cache total minus ours, where they had to part */
    uint32_t oldest, newest; /* cached buffers: 1 + place in the mirror's table, 0 = none */
    uint64_t buffers;        /* active and cached */
} __attribute__((aligned(64)));
extern struct bh_live bh_live;

static inline int bh_phase_get(void)
{
    return __atomic_load_n(&bh_phase, __ATOMIC_ACQUIRE);
}

void bh_phase_set(int phase);
int bh_life_watch_forks(void); /* once, at attach; 0 or -1 */
/* In a forked child: opens the child's own ring, keeping every id. Called under bh_live.lock. */
void bh_life_child_open(void);
extern bool bh_life_child_pending; /* a forked child that has not opened its ring yet */

/* ---- clock.c ------------------------------------------------------------------------ */

void bh_clock_open(void);     /* once, before the first event */
uint64_t bh_clock_read(void); /* CLOCK_BOOTTIME in ns, from the system */
uint64_t bh_clock_ns(void);   /* the same for an event: never goes back; under bh_live.lock */

/* ---- emit.c: the ring file --------------------------------------------------------- */

struct bh_emit {
    struct bh_ring_header *header; /* NULL: no ring (never opened, or forked child) */
    struct bh_ring_slot *slots;
    unsigned char *arena;
    uint64_t mask;
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
 * when the ring is full (counted). Under bh_live.lock. */
uint64_t bh_emit_slot(const struct bh_ring_slot *slot);
struct bh_buffer;
uint64_t bh_emit_buffer(enum bh_ring_kind kind, uint16_t flags, const struct bh_buffer *buffer);
uint64_t bh_emit_link(const struct bh_ring_slot *slot);
static inline bool bh_emit_wanted(void)
{
    const struct bh_ring_header *header = __atomic_load_n(&bh_emit.header, __ATOMIC_RELAXED);

    return header != NULL &&
           (__atomic_load_n(&header->control, __ATOMIC_RELAXED) & BH_RING_CONTROL_ON) != 0;
}
/* arena.c: records; each returns the new id, or 0 when the arena is full. Under bh_arena_lock. */
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

struct bh_buffer {    /* one cache line */
    uint64_t address; /* 0 = free */
    uint64_t size_bytes;
    uint64_t requested_bytes;
    uint64_t ticket; /* of its last allocation's slot, BH_NO_TICKET when that was not written */
    uint32_t stack;
    uint32_t primitive;
    int32_t stream;
    uint32_t older; /* cached: neighbours in order of age, 1 + place in the table, 0 = none */
    uint32_t newer;
    uint8_t state; /* enum bh_buffer_state */
    uint8_t device;
    bool linked;  /* an array took it: primitive and stack are known */
    bool foreign; /* from make_buffer: not counted by MLX */
    uint64_t reserved;
};

struct bh_mirror {
    struct bh_buffer *table; /* open addressing by address; NULL until the first */
    uint64_t mask;
};
extern struct bh_mirror bh_mirror;

/* Entries move when one is added or dropped: a pointer holds until then. */
static inline struct bh_buffer *bh_mirror_find(uint64_t address)
{
    uint64_t at;

    if (BH_UNLIKELY(bh_mirror.table == NULL)) {
        return NULL;
    }
    for (at = bh_map_hash(address) & bh_mirror.mask; bh_mirror.table[at].address != address;
         at = (at + 1) & bh_mirror.mask) {
        if (bh_mirror.table[at].address == 0) {
            return NULL;
        }
    }
    return &bh_mirror.table[at];
}

/* Asks for the entry's cache line ahead of its use. */
static inline void bh_mirror_expect(uint64_t address)
{
    if (BH_LIKELY(bh_mirror.table != NULL)) {
        __builtin_prefetch(&bh_mirror.table[bh_map_hash(address) & bh_mirror.mask], 1);
    }
}

struct bh_buffer *bh_mirror_add(uint64_t address); /* NULL without memory */
void bh_mirror_drop(struct bh_buffer *buffer);
void bh_mirror_to_cache(struct bh_buffer *buffer);
void bh_mirror_to_active(struct bh_buffer *buffer);
struct bh_buffer *bh_mirror_oldest(void);       /* of the cached ones, NULL = none */
struct bh_buffer *bh_mirror_at(uint64_t place); /* 0 .. bh_mirror_end()-1, FREE ones too */
uint64_t bh_mirror_end(void);

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
/* String id of the name that all primitives of a class have, 0 = each must be asked, or not known.
 * Under bh_arena_lock. */
uint32_t bh_names_class(const uintptr_t *table);
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
extern bool bh_desc_word_settled; /* it is known where stack ids are kept */
extern bool bh_desc_settled;      /* and where the Primitive is: nothing is left to learn */
bool bh_desc_has_word(void);      /* stack ids are kept in the nodes themselves */
bool bh_desc_understood(void);    /* and init() alone shows all about a node */
/* In place of ArrayDesc::init, once nodes have the word; they call the original. */
void bh_desc_init_recording(void *desc); /* once they are understood */
void bh_desc_init_off(void *desc);
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
/* Something that allocates: an operation, by its first output, or a leaf that waits for its data.
 */
struct bh_op {
    void *desc; /* NULL = none */
    bool known; /* facts are filled in */
    struct bh_op_facts facts;
};

/* What a thread is about. Without a constructor: all zero until it is first used. */
struct bh_thread {
    uint32_t id;           /* the kernel's, 0 = not asked yet */
    bool inside;           /* in a call of the allocator, under bh_live.lock */
    uint32_t last_stack;   /* of the node made last */
    struct bh_op op;       /* evaluated now */
    struct bh_op leaf;     /* made in .. */
    uint32_t leaf_period;  /* .. this one of bh_op_period */
    uint64_t last_address; /* allocated last, by .. */
    const void *last_desc; /* .. the operation or leaf of this node */
};
extern __thread struct bh_thread bh_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern uint32_t bh_op_period; /* counts how often recording was switched on, atomic */

/* A new node's primitive: from now on its evaluation is noticed. */
void bh_op_watch(void *primitive);
void bh_op_leaf_made(void *desc, uint32_t stack); /* a node that is made from data */
/* The operation that this thread evaluates, or the leaf that it makes; NULL when there is neither.
 * Its facts are known. Not under a lock. */
const struct bh_op *bh_op_current(void);
uint32_t bh_op_name(void *primitive); /* as bh_names_primitive, mostly without a lock */

/* ---- events.c: slots out of buffers ------------------------------------------------ */

extern bool bh_events_recording; /* BASELINE_BEGIN was written and OFF was not */
extern bool bh_events_checking;  /* the option check=1 */
/* Writes an event about a buffer, unless recording is off or the buffer is a small one. */
uint64_t bh_events_write(enum bh_ring_kind kind, const struct bh_buffer *buffer);
void bh_events_follow_slowly(bool may_open);
/* Follows the control word, a gap that can be closed, and a forked child's need for a ring of its
 * own, which it gets when may_open. */
static inline void bh_events_follow_control(bool may_open)
{
    if (BH_UNLIKELY(bh_emit.header == NULL || bh_emit.gap != 0 ||
                    bh_emit_wanted() != bh_events_recording)) {
        bh_events_follow_slowly(may_open);
    }
}
void bh_events_count_small(const struct bh_buffer *buffer, int sign); /* +1 allocated, -1 freed */
void bh_events_check(void);                                           /* the oracle */

/* ---- track.c: events --------------------------------------------------------------- */

void *bh_track_malloc(void *self, size_t bytes);
void bh_track_free(void *self, void *buffer);
void *bh_track_make_buffer(void *self, void *data, size_t bytes);
void bh_track_release(void *self, void *buffer);
void bh_track_link(uint64_t buffer, void *desc);       /* an array takes a buffer .. */
void bh_track_link_owned(uint64_t buffer, void *desc); /* .. that nobody else holds */
void bh_track_follow(void);                            /* the control word may have changed */
void bh_track_flush_begin(void); /* another thread may see the cache shrink from here .. */
void bh_track_flush_end(void);   /* .. to here, where the mirror catches up */
void bh_track_mark(const char *label);
extern int bh_track_flushes; /* clear_cache and the like in flight, atomic */

/* ---- hooks.c, bind.c: how MLX's calls come here ------------------------------------ */

/* One of libmlx's functions that this library stands in front of. */
struct bh_hook {
    const char *name;        /* as libmlx exports it */
    void (*general)(void);   /* what this library exports under that name: right in every phase */
    void *original;          /* the member of bh_mlx that holds libmlx's own */
    void (*recording)(void); /* once nodes are understood; NULL = the original */
    void (*off)(void);       /* the same while recording is switched off */
};
extern const struct bh_hook bh_hooks[];
extern const uint32_t bh_hook_count;

void bh_bind_find(void); /* once, when the phase is decided */
/* Lets every call go where the present state wants it. Any thread, any lock held but its own. */
void bh_bind_update(void);
extern pthread_mutex_t bh_bind_lock;

/* ---- attach.c: libmlx -------------------------------------------------------------- */

struct bh_mlx {
    /* the allocator's own table */
    void *(*malloc)(void *, size_t);
    void (*free)(void *, void *);
    size_t (*size)(void *, void *);
    const uint64_t *cache_word; /* MLX's own count of cached bytes, NULL = ask get_cache_memory */
    void (*desc_init)(void *);
    void (*set_data)(void *, void *);
    void (*set_data_long)(void *, void *, uint64_t, void *, uint64_t, int64_t);
    void *object;
    void *(*make_buffer)(void *, void *, size_t);
    void (*release)(void *, void *);
    void *(*allocator)(void);
    void (*desc_dtor)(void *);
    void (*desc_ctor_leaf)(void *, void *, uint64_t);
    void (*desc_ctor_node)(void *, void *, uint64_t, void *, void *);
    void (*set_data_old)(void *, uint64_t, void *);
    void (*set_data_long_0_32)(void *, uint64_t, uint64_t, void *, uint64_t, int64_t, void *);
    void (*set_data_long_0_31)(void *, uint64_t, uint64_t, void *, uint64_t, void *);
    size_t (*get_active_memory)(void);
    size_t (*get_cache_memory)(void);
    size_t (*set_cache_limit)(size_t);
    void (*clear_cache)(void);
    void (*reset_peak_memory)(void);
    const char *(*version)(void);
    uintptr_t low, high;           /* where libmlx lies in memory */
    uintptr_t text_low, text_high; /* its code */
};
extern struct bh_mlx bh_mlx;

void bh_attach_resolve(void); /* finds the originals; idempotent */
void *bh_attach_first(void);  /* the first allocator() call */
void bh_attach_leave(void);   /* FAILED: MLX's allocator is as it was before */

#endif
