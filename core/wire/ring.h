/*
 * Layout and protocol of a recorder ring file, `<pid>-<starttoken>-<n>.ring` in the job's ring
 * folder. Written by libbulkhead-record.so inside the job (one file per process image, any thread),
 * read by the scribe through ring_read.h; nobody else stores into it. All values little-endian; the
 * struct members below are at their natural offsets, which the assertions at the end fix.
 *
 * File = header page (4,096 bytes) | slot_count slots of 64 bytes | arena of arena_bytes bytes.
 * Allocated in full when it is created. A recorder that refuses to attach leaves a file of the
 * header page alone: state REFUSED, slot_count 0, arena_bytes 0, the reason as text.
 * pid, start_token (field 22 of /proc/pid/stat on Linux) and image (n) are also the file's name.
 *
 * Creation. The file is filled under the name `.<pid>-<starttoken>-<n>.tmp`, then renamed, so a
 * reader that sees *.ring sees a complete header.
 *
 * Slots. `head` counts the slots handed out, `tail` the slots taken by the reader; ticket t lives
 * in slot t & (slot_count - 1). A producer takes ticket t = head, advances head, fills the slot,
 * and release-stores sequence = t + 1 last. The reader acquires sequence; a slot whose sequence is
 * not t + 1 is not ready: wait while the process lives, count a hole once it is gone. Distances are
 * taken as a signed 64-bit difference: anything outside 0 .. slot_count is corruption.
 * Full ring: the event is dropped and counted in `lost`; the first slot after the gap is a LOST
 * slot.
 *
 * Tail. The reader may write with pwrite(), whose eight bytes need not land at once: it writes tail
 * and tail_check = ~tail, and the producer believes a tail only when the two agree.
 *
 * Arena. Records of 8-byte alignment, appended; arena_used is release-stored after a record is
 * whole, and always before a slot that names the record's id. Ids count from 1 in order of
 * appearance, separately for strings, frames and stacks; 0 = none. A record names earlier ids only,
 * so a single pass in order resolves everything.
 *   all      u16 kind, u16 reserved 0, u32 record_bytes (whole record, multiple of 8)
 *   STRING   + u32 id, u32 length, length bytes of UTF-8 without NUL, zero padding
 *   FRAME    + u32 id, u32 file (string), u32 function (string), u32 line (0 = unknown)
 *   STACK    + u32 id, u32 count, count x u32 frame ids, **innermost first**, zero padding
 * Full arena: stack id 0, counted in stacks_lost, flag LOSSY. Unknown kinds are skipped.
 *
 * Life. The producer holds a shared flock() on the file for as long as it has it mapped (the
 * mapping holds the open file, the descriptor is closed). pid and start_token tell whether it lives
 * only to a reader of the same pid namespace, whose inode the header names; any other tries the
 * lock. A forked child holds its parent's as well until it opens a ring of its own, executes or
 * ends.
 *
 * Control. `control` is stored by the supervisor's side (the low byte only), read by the recorder
 * at every event.
 */
#ifndef BH_WIRE_RING_H
#define BH_WIRE_RING_H

#include <stddef.h>
#include <stdint.h>

#define BH_RING_MAGIC               0x474e5242u /* "BRNG" */
#define BH_RING_VERSION             1u
#define BH_RING_HEADER_BYTES        4096u
#define BH_RING_SLOT_BYTES          64u
#define BH_RING_SLOTS_DEFAULT       131072u
#define BH_RING_SLOTS_MIN           64u
#define BH_RING_SLOTS_MAX           (1u << 24)
#define BH_RING_ARENA_BYTES_DEFAULT (16u << 20)
#define BH_RING_ARENA_BYTES_MIN     (64u << 10)
#define BH_RING_ARENA_BYTES_MAX     (1u << 30)
#define BH_RING_DEPTH_DEFAULT       32u
#define BH_RING_DEPTH_MAX           256u
#define BH_RING_STRING_BYTES_MAX    4096u
#define BH_RING_REASON_BYTES        256u
#define BH_RING_VERSION_TEXT_BYTES  48u

/* Control word. */
#define BH_RING_CONTROL_ON 0x1u

enum bh_ring_state {
    BH_RING_STATE_NONE = 0,     /* never visible under the final name */
    BH_RING_STATE_ATTACHED = 1, /* events flow (or are switched off by control) */
    BH_RING_STATE_REFUSED = 2,  /* this image is not recorded, see reason */
    BH_RING_STATE_FAILED = 3,   /* it was recorded, then recording had to stop, see reason */
};

/* Flags: facts about the attachment, for reports and diagnosis. */
#define BH_RING_FLAG_LOSSY     0x1u /* something was dropped: slots, stacks or the mirror's memory */
#define BH_RING_FLAG_LINKS     0x2u  /* set_data is hooked: allocations get primitive and stack */
#define BH_RING_FLAG_STREAMS   0x4u  /* stream numbers are known */
#define BH_RING_FLAG_DESC_WORD 0x8u  /* stack ids live in the array descriptor's tail padding */
#define BH_RING_FLAG_CHILD     0x10u /* forked child: starts with the buffers it inherited */
#define BH_RING_FLAG_CXX       0x20u /* C++ frames are recorded as well */
#define BH_RING_FLAG_LOCKED    0x40u /* the lock on the file is held while the process lives */

enum bh_ring_stacks {
    BH_RING_STACKS_NONE = 0,
    BH_RING_STACKS_PYTHON = 1,
    BH_RING_STACKS_ALL = 2,
};

/* How Python stacks are taken in this process. */
enum bh_ring_walk {
    BH_RING_WALK_NONE = 0,     /* no Python, or stacks=none, or every scheme failed its test */
    BH_RING_WALK_RAW = 1,      /* the interpreter's frame chain */
    BH_RING_WALK_UNSTABLE = 2, /* PyUnstable_InterpreterFrame_* */
    BH_RING_WALK_PUBLIC = 3,   /* PyFrame_GetBack and friends */
};

/* What a slot says. The first seven are MLX's actions; the numbers are the same in events.bhe. */
enum bh_ring_kind {
    BH_RING_ALLOC_NEW = 1,
    BH_RING_ALLOC_REUSE = 2,
    BH_RING_ALLOC_MAKE_BUFFER = 3,
    BH_RING_FREE_TO_CACHE = 4,
    BH_RING_FREE_TO_OS = 5,
    BH_RING_RELEASE = 6,
    BH_RING_CACHE_TO_OS = 7,
    /* requested_bytes = events lost here, address = active bytes, size_bytes = cached bytes now */
    BH_RING_LOST = 16,
    /* Recording begins (or begins again): requested_bytes = number of BASELINE slots that follow,
     * address = active bytes, size_bytes = cached bytes. Whatever was live before is forgotten. */
    BH_RING_BASELINE_BEGIN = 17,
    BH_RING_BASELINE = 18, /* one buffer that exists; flag CACHED tells which of the two */
    BH_RING_OFF = 19,      /* recording was switched off here; sums as in LOST */
    BH_RING_LINK = 20,     /* allocation `link_ticket` got its primitive, stream and stack */
    BH_RING_MARK = 21,     /* text string, set by the program itself (bh_record_mark) */
};

#define BH_RING_SLOT_CACHED   0x1u /* BASELINE: the buffer lies in the cache */
#define BH_RING_SLOT_DOUBTFUL 0x2u /* classified while another thread emptied the cache */

#define BH_RING_DEVICE_CPU     0u
#define BH_RING_DEVICE_GPU     1u
#define BH_RING_DEVICE_UNKNOWN 255u

struct bh_ring_slot {
    uint64_t sequence;   /* ticket + 1, stored last (release); 0 = never used */
    uint64_t time_ns;    /* CLOCK_BOOTTIME */
    uint64_t address;    /* the MLX Buffer's pointer value: the key, not necessarily the data */
    uint64_t size_bytes; /* the buffer's real size */
    union {
        uint64_t requested_bytes; /* what the program asked for */
        uint64_t link_ticket;     /* LINK: ticket of the allocation's slot */
    };
    uint32_t stack;     /* stack id */
    uint32_t primitive; /* string id; MARK: the label */
    uint32_t thread;    /* kernel thread id */
    int32_t stream;     /* stream index, -1 = unknown */
    uint8_t kind;       /* enum bh_ring_kind */
    uint8_t device;     /* BH_RING_DEVICE_* */
    uint16_t flags;     /* BH_RING_SLOT_* */
    uint32_t reserved;  /* 0 */
};

struct bh_ring_header {
    /* Constant after creation. */
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;   /* 4,096: where the slots begin */
    uint32_t required_flags; /* a reader refuses bits that it does not know; 0 in version 1 */
    uint32_t slot_count;     /* power of two, or 0 with state REFUSED */
    uint64_t arena_offset;
    uint64_t arena_bytes;
    uint64_t file_bytes; /* what the process has mapped of this file (all of it) */
    uint32_t pid;
    uint32_t image; /* n: the how-manieth image of (pid, start token) that met MLX, from 0 */
    uint64_t start_token;
    uint64_t created_ns; /* CLOCK_BOOTTIME */

    uint64_t attach_active_bytes; /* get_active_memory() when the recorder attached */
    uint64_t attach_cache_bytes;  /* get_cache_memory() likewise */
    uint64_t min_size_bytes;
    uint32_t stacks; /* enum bh_ring_stacks */
    uint32_t depth;  /* innermost frames kept per stack */
    uint32_t walk;   /* enum bh_ring_walk */
    uint32_t parent_pid;
    uint64_t pid_namespace; /* inode of the process's pid namespace, 0 = not known */
    uint32_t reserved0[4];

    /* 128: stored by the reader. */
    uint32_t control;
    uint32_t reserved1;
    uint64_t tail;
    uint64_t tail_check; /* ~tail */
    uint64_t reserved2[5];

    /* 192: stored by the producer, each on its own (release). */
    uint64_t head;
    uint64_t arena_used;
    uint32_t state;        /* enum bh_ring_state */
    uint32_t flags;        /* BH_RING_FLAG_* */
    uint64_t lost;         /* events dropped because the ring was full, in total */
    uint64_t active_bytes; /* the recorder's own sums, right even after losses */
    uint64_t cache_bytes;
    uint64_t stacks_lost;      /* arrays made without a stack because the arena was full */
    uint64_t small_count;      /* allocations below min_size_bytes, not recorded one by one */
    uint64_t small_bytes;      /* their real sizes, in total */
    uint64_t small_live_bytes; /* of these, still active */
    uint64_t links_lost;       /* LINK slots dropped because the ring was full; not in `lost` */
    /* With the option check=1 only: how often the sums were compared with MLX's own counters after
     * an event, and how often they differed. */
    uint64_t checks, mismatches;
    uint64_t reserved3[3];

    /* 320: text, NUL-terminated, printable UTF-8. */
    char reason[BH_RING_REASON_BYTES];
    char mlx_version[BH_RING_VERSION_TEXT_BYTES];
    char python_version[BH_RING_VERSION_TEXT_BYTES];
    unsigned char reserved4[3424];
};

enum bh_ring_arena_kind {
    BH_RING_ARENA_STRING = 1,
    BH_RING_ARENA_FRAME = 2,
    BH_RING_ARENA_STACK = 3,
};

#define BH_RING_ARENA_PREFIX_BYTES 16u /* kind, reserved, record_bytes, id, length or count */
#define BH_RING_ARENA_FRAME_BYTES  24u

_Static_assert(sizeof(struct bh_ring_slot) == BH_RING_SLOT_BYTES, "slot is one cache line");
_Static_assert(offsetof(struct bh_ring_slot, stack) == 40, "slot layout");
_Static_assert(offsetof(struct bh_ring_slot, kind) == 56, "slot layout");
_Static_assert(sizeof(struct bh_ring_header) == BH_RING_HEADER_BYTES, "header is one page");
_Static_assert(offsetof(struct bh_ring_header, attach_active_bytes) == 64, "header layout");
_Static_assert(offsetof(struct bh_ring_header, pid_namespace) == 104, "header layout");
_Static_assert(offsetof(struct bh_ring_header, control) == 128, "header layout");
_Static_assert(offsetof(struct bh_ring_header, tail) == 136, "header layout");
_Static_assert(offsetof(struct bh_ring_header, head) == 192, "header layout");
_Static_assert(offsetof(struct bh_ring_header, reason) == 320, "header layout");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rings are shared in native order");

#endif
