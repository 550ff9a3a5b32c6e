/*
 * The ring file: created whole under a temporary name, renamed, mapped and populated, then written
 * slot by slot. One producer at a time (bh_live.lock), so a ticket is a plain increment; the reader
 * is another process and sees the release stores of ring.h. Nothing here allocates, and the file
 * never grows.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/record/record.h"

/* After a loss the ring must have drained this far before recording resumes, so that losses come as
 * few long gaps and not as many short ones. */
#define RESUME_SHARE 16u

/* The ring is larger than the caches: the line that is needed next but two is asked for now. */
#define PREFETCH_SLOTS 3u

/* Without space for the ring asked for: a fourth of it, and again, but not below this. */
#define SHRINK      4u
#define SLOTS_LEAST 4096u

BH_HOT struct bh_emit bh_emit;

/* Field 22 of /proc/self/stat: the start time in clock ticks since boot, 0 if it cannot be read. */
static uint64_t start_token(void)
{
    char text[1024];
    char *at;
    ssize_t got;
    uint64_t value = 0;
    int field;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return 0;
    }
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0) {
        return 0;
    }
    text[got] = '\0';
    at = strrchr(text, ')'); /* the name in field 2 may hold anything, parentheses too */
    for (field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    for (at = at == NULL ? NULL : at + 1; at != NULL && *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
    }
    return value;
}

void bh_emit_text(char *ret_text, size_t size, const char *text)
{
    size_t at;

    for (at = 0; at + 1 < size && text != NULL && text[at] != '\0'; at++) {
        ret_text[at] = (unsigned char)text[at] < 0x20 || text[at] == 0x7f ? '?' : text[at];
    }
    ret_text[at] = '\0';
}

/* Inode of this process's pid namespace, 0 if it cannot be found out. */
static uint64_t pid_namespace(void)
{
    struct stat facts;

    return stat("/proc/self/ns/pid", &facts) == 0 ? (uint64_t)facts.st_ino : 0;
}

static void fill_header(struct bh_ring_header *header, const struct bh_options *options)
{
    memset(header, 0, sizeof(*header));
    header->magic = BH_RING_MAGIC;
    header->version = BH_RING_VERSION;
    header->header_bytes = BH_RING_HEADER_BYTES;
    header->pid = (uint32_t)getpid();
    header->parent_pid = (uint32_t)getppid();
    header->start_token = start_token();
    header->pid_namespace = pid_namespace();
    header->created_ns = bh_clock_read();
    header->min_size_bytes = options->min_size_bytes;
    header->stacks = options->stacks;
    header->depth = options->depth;
    header->control = options->start_off ? 0 : BH_RING_CONTROL_ON;
    header->tail_check = ~(uint64_t)0;
    header->file_bytes = BH_RING_HEADER_BYTES;
}

/* Takes the lowest image number whose name is free. A link of the finished file onto the name is
 * atomic and fails when it exists. Returns 0 or -1. */
static int publish_name(int dir, const char *temporary, struct bh_ring_header *header)
{
    char name[96];
    uint32_t image;

    for (image = 0; image < 10000; image++) {
        header->image = image;
        snprintf(name, sizeof(name), "%u-%llu-%u.ring", header->pid,
                 (unsigned long long)header->start_token, image);
        if (linkat(dir, temporary, dir, name, 0) == 0) {
            return 0;
        }
        if (errno != EEXIST) {
            return -1;
        }
    }
    return -1;
}

/* Growing a file beyond the process's limit would be answered with a signal that kills it. */
static bool size_allowed(uint64_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
}

/* Creates the file of the header's file_bytes, fills the header in the mapping, names the file.
 * Returns the mapping or NULL. */
static struct bh_ring_header *create_file(const char *path, const struct bh_ring_header *header)
{
    struct bh_ring_header *mapped = NULL;
    char temporary[96];
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = -1;
    int saved;

    if (dir < 0) {
        return NULL;
    }
    if (!size_allowed(header->file_bytes)) {
        close(dir);
        errno = EFBIG;
        return NULL;
    }
    snprintf(temporary, sizeof(temporary), ".%u-%llu-%u.tmp", header->pid,
             (unsigned long long)header->start_token, (unsigned)gettid());
    unlinkat(dir, temporary, 0);
    fd = openat(dir, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        goto out;
    }
    saved = posix_fallocate(fd, 0, (off_t)header->file_bytes);
    if (saved != 0) {
        errno = saved;
        goto out;
    }
    /* Populated at once: what the supervisor subtracts from the job's charge is then the exact
     * size, and no event pays for a page fault. */
    mapped =
        mmap(NULL, header->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (mapped == MAP_FAILED) {
        mapped = NULL;
        goto out;
    }
    *mapped = *header;
    /* held by the mapping once the descriptor is closed */
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        mapped->flags |= BH_RING_FLAG_LOCKED;
    }
    if (publish_name(dir, temporary, mapped) != 0) {
        saved = errno;
        munmap(mapped, header->file_bytes);
        errno = saved;
        mapped = NULL;
    }
out:
    saved = errno;
    unlinkat(dir, temporary, 0);
    if (fd >= 0) {
        close(fd);
    }
    close(dir);
    errno = saved;
    return mapped;
}

static struct bh_ring_header *create_ring(const struct bh_options *options, uint32_t slots,
                                          uint64_t arena_bytes, uint32_t flags)
{
    struct bh_ring_header header;

    fill_header(&header, options);
    header.slot_count = slots;
    header.arena_offset = BH_RING_HEADER_BYTES + (uint64_t)slots * BH_RING_SLOT_BYTES;
    header.arena_bytes = arena_bytes;
    header.file_bytes = header.arena_offset + header.arena_bytes;
    header.state = BH_RING_STATE_ATTACHED;
    header.flags = flags;
    return create_file(options->dir, &header);
}

/* A container's /dev/shm may be small: a smaller ring is better than none. */
static struct bh_ring_header *create_fitting_ring(const struct bh_options *options, uint32_t flags)
{
    uint32_t slots = options->slots;
    uint64_t arena_bytes = options->arena_bytes;
    struct bh_ring_header *mapped = create_ring(options, slots, arena_bytes, flags);

    while (mapped == NULL && errno == ENOSPC && slots / SHRINK >= SLOTS_LEAST) {
        slots /= SHRINK;
        arena_bytes = arena_bytes / SHRINK & ~(uint64_t)4095;
        if (arena_bytes < BH_RING_ARENA_BYTES_MIN) {
            arena_bytes = BH_RING_ARENA_BYTES_MIN;
        }
        mapped = create_ring(options, slots, arena_bytes, flags);
    }
    return mapped;
}

int bh_emit_open(const struct bh_options *options, uint32_t flags)
{
    struct bh_ring_header *mapped = create_fitting_ring(options, flags);

    if (mapped == NULL) {
        return -1;
    }
    bh_emit.header = mapped;
    bh_emit.slots = (struct bh_ring_slot *)(void *)((unsigned char *)mapped + BH_RING_HEADER_BYTES);
    bh_emit.arena = (unsigned char *)mapped + mapped->arena_offset;
    bh_emit.arena_bytes = mapped->arena_bytes;
    bh_emit.mask = mapped->slot_count - 1;
    bh_live.head = 0;
    bh_emit.tail = 0;
    bh_emit.gap = 0;
    return 0;
}

void bh_emit_refuse(const struct bh_options *options, const char *reason)
{
    struct bh_ring_header header;
    struct bh_ring_header *mapped;

    fill_header(&header, options);
    header.state = BH_RING_STATE_REFUSED;
    bh_emit_text(header.reason, sizeof(header.reason), reason);
    if (bh_mlx.version != NULL) {
        bh_emit_text(header.mlx_version, sizeof(header.mlx_version), bh_mlx.version());
    }
    mapped = create_file(options->dir, &header);
    if (mapped != NULL) {
        munmap(mapped, BH_RING_HEADER_BYTES);
    }
}

void bh_emit_unmap(void)
{
    if (bh_emit.header != NULL) {
        munmap(bh_emit.header, BH_RING_HEADER_BYTES + (bh_emit.mask + 1) * BH_RING_SLOT_BYTES +
                                   bh_emit.arena_bytes);
        bh_emit.header = NULL;
    }
}

/* ---- slots ------------------------------------------------------------------------- */

/* Free slots, asking the reader's tail only when the one last believed says that there are fewer
 * than `wanted`. */
static uint64_t room(uint64_t wanted)
{
    uint64_t size = bh_emit.mask + 1;
    uint64_t tail, check;

    if (BH_LIKELY(size - (bh_live.head - bh_emit.tail) >= wanted)) {
        return size - (bh_live.head - bh_emit.tail);
    }
    tail = __atomic_load_n(&bh_emit.header->tail, __ATOMIC_ACQUIRE);
    check = __atomic_load_n(&bh_emit.header->tail_check, __ATOMIC_ACQUIRE);
    if (tail == ~check && (int64_t)(tail - bh_emit.tail) > 0 &&
        (int64_t)(bh_live.head - tail) >= 0) {
        bh_emit.tail = tail;
    }
    return size - (bh_live.head - bh_emit.tail);
}

/* The next slot, its ticket handed out and all of it to be filled. */
static inline struct bh_ring_slot *begin(uint64_t *ret_ticket)
{
    uint64_t ticket = bh_live.head++;

    __atomic_store_n(&bh_emit.header->head, bh_live.head, __ATOMIC_RELEASE);
    *ret_ticket = ticket;
    return &bh_emit.slots[ticket & bh_emit.mask];
}

static inline void finish(struct bh_ring_slot *slot, uint64_t ticket)
{
    if (BH_UNLIKELY(bh_thread.id == 0)) {
        bh_thread.id = (uint32_t)gettid();
    }
    slot->thread = bh_thread.id;
    slot->reserved = 0;
    __atomic_store_n(&slot->sequence, ticket + 1, __ATOMIC_RELEASE);
    __builtin_prefetch(&bh_emit.slots[(ticket + PREFETCH_SLOTS) & bh_emit.mask], 1);
}

static uint64_t publish(const struct bh_ring_slot *slot)
{
    uint64_t ticket;
    struct bh_ring_slot *target = begin(&ticket);

    target->time_ns = bh_clock_ns();
    target->address = slot->address;
    target->size_bytes = slot->size_bytes;
    target->requested_bytes = slot->requested_bytes;
    target->stack = slot->stack;
    target->primitive = slot->primitive;
    target->stream = slot->stream;
    target->kind = slot->kind;
    target->device = slot->device;
    target->flags = slot->flags;
    finish(target, ticket);
    return ticket;
}

/* Is there room for one event? If not it is lost, and counted. */
static inline bool may_emit(void)
{
    if (BH_LIKELY(bh_emit.gap == 0) && BH_LIKELY(room(1) >= 1)) {
        return true;
    }
    bh_emit.gap++;
    __atomic_store_n(&bh_emit.header->lost, bh_emit.header->lost + 1, __ATOMIC_RELEASE);
    bh_emit.header->flags |= BH_RING_FLAG_LOSSY;
    return false;
}

bool bh_emit_close_gap(uint64_t buffers)
{
    struct bh_ring_slot lost = {.kind = BH_RING_LOST,
                                .requested_bytes = bh_emit.gap,
                                .address = bh_live.active_bytes,
                                .size_bytes = bh_live.cache_bytes,
                                .stream = -1,
                                .device = BH_RING_DEVICE_UNKNOWN};
    uint64_t size = bh_emit.mask + 1;
    uint64_t wanted = size / RESUME_SHARE + 2 * buffers;

    wanted =
        wanted > size ? size : wanted; /* a baseline that never fits whole is cut, and counted */
    if (room(wanted) < wanted) {
        return false;
    }
    (void)publish(&lost);
    bh_emit.gap = 0;
    return true;
}

uint64_t bh_emit_slot(const struct bh_ring_slot *slot)
{
    return may_emit() ? publish(slot) : BH_NO_TICKET;
}

/* The same for an event about a buffer, written straight from its entry. */
uint64_t bh_emit_buffer(enum bh_ring_kind kind, uint16_t flags, const struct bh_buffer *buffer)
{
    struct bh_ring_slot *target;
    uint64_t ticket;

    if (BH_UNLIKELY(!may_emit())) {
        return BH_NO_TICKET;
    }
    target = begin(&ticket);
    target->time_ns = bh_clock_ns();
    target->address = buffer->address;
    target->size_bytes = buffer->size_bytes;
    target->requested_bytes = buffer->requested_bytes;
    target->stack = buffer->stack;
    target->primitive = buffer->primitive;
    target->stream = buffer->stream;
    target->kind = (uint8_t)kind;
    target->device = buffer->device;
    target->flags = flags;
    finish(target, ticket);
    return ticket;
}

/* A link is an addition to an event already written: lost without a gap, counted on its own. */
uint64_t bh_emit_link(const struct bh_ring_slot *slot)
{
    if (BH_UNLIKELY(bh_emit.gap != 0) || BH_UNLIKELY(room(1) < 1)) {
        bh_emit.header->links_lost++;
        bh_emit.header->flags |= BH_RING_FLAG_LOSSY;
        return BH_NO_TICKET;
    }
    return publish(slot);
}
