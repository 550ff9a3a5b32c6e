/* Reader's side of a recorder ring; see ring_read.h. */
#include "core/wire/ring_read.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/wire/le.h"

/* Keeps two reads of a file that is being written in their order. ThreadSanitizer knows no fences,
 * and does not see what another process stores either. */
static void order_reads(void)
{
#if !defined(__SANITIZE_THREAD__)
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static int pread_full(int fd, void *ret_data, size_t length, uint64_t offset)
{
    unsigned char *at = ret_data;

    while (length > 0) {
        ssize_t got = pread(fd, at, length, (off_t)offset);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return bh_err_from_errno(errno);
        }
        if (got == 0) {
            return BH_E_TRUNCATED;
        }
        at += got;
        length -= (size_t)got;
        offset += (uint64_t)got;
    }
    return BH_OK;
}

/* ---- names ------------------------------------------------------------------------- */

/* Digits up to `end`, no leading zero, at most maximum. Returns the position behind end, or NULL.
 */
static const char *number(const char *at, char end, uint64_t maximum, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *start = at;

    for (; *at >= '0' && *at <= '9'; at++) {
        if (value > (maximum - (uint64_t)(*at - '0')) / 10) {
            return NULL;
        }
        value = value * 10 + (uint64_t)(*at - '0');
    }
    if (at == start || *at != end || (*start == '0' && at - start > 1)) {
        return NULL;
    }
    *ret_value = value;
    return at + 1;
}

bool bh_ring_name_parse(const char *name, struct bh_ring_name *ret_name)
{
    uint64_t pid, token, image;

    name = number(name, '-', INT32_MAX, &pid);
    name = name == NULL ? NULL : number(name, '-', UINT64_MAX - 9, &token);
    name = name == NULL ? NULL : number(name, '.', 9999, &image);
    if (name == NULL || strcmp(name, "ring") != 0 || pid == 0) {
        return false;
    }
    *ret_name = (struct bh_ring_name){(uint32_t)pid, token, (uint32_t)image};
    return true;
}

/* ---- header ------------------------------------------------------------------------ */

static bool sizes_fit(const struct bh_ring_header *header)
{
    uint64_t slots = header->slot_count;

    if (slots == 0) {
        return header->state == BH_RING_STATE_REFUSED && header->arena_bytes == 0 &&
               header->file_bytes == BH_RING_HEADER_BYTES;
    }
    return slots >= BH_RING_SLOTS_MIN && slots <= BH_RING_SLOTS_MAX && (slots & (slots - 1)) == 0 &&
           header->arena_offset == BH_RING_HEADER_BYTES + slots * BH_RING_SLOT_BYTES &&
           header->arena_bytes <= BH_RING_ARENA_BYTES_MAX &&
           header->file_bytes == header->arena_offset + header->arena_bytes;
}

static void end_texts(struct bh_ring_header *header)
{
    header->reason[BH_RING_REASON_BYTES - 1] = '\0';
    header->mlx_version[BH_RING_VERSION_TEXT_BYTES - 1] = '\0';
    header->python_version[BH_RING_VERSION_TEXT_BYTES - 1] = '\0';
}

static int check_header(const struct bh_ring_header *header, const struct bh_ring_name *name,
                        struct bh_diag *diag)
{
    if (header->magic != BH_RING_MAGIC) {
        return bh_err_set(diag, BH_E_MALFORMED, NULL, "the file is no recorder ring");
    }
    if (header->version != BH_RING_VERSION || header->required_flags != 0) {
        return bh_err_set(diag, BH_E_VERSION, NULL, "the ring has version %u, this reader knows %u",
                          header->version, BH_RING_VERSION);
    }
    if (header->header_bytes != BH_RING_HEADER_BYTES || !sizes_fit(header)) {
        return bh_err_set(diag, BH_E_MALFORMED, NULL, "the ring's sizes contradict each other");
    }
    if (header->pid != name->pid || header->start_token != name->start_token ||
        header->image != name->image) {
        return bh_err_set(diag, BH_E_MALFORMED, NULL, "the ring's name and header disagree");
    }
    return BH_OK;
}

static bool head_fits(const struct bh_ring_reader *reader, uint64_t head)
{
    int64_t waiting = (int64_t)(head - reader->next);

    return waiting >= 0 && waiting <= (int64_t)reader->facts.slot_count;
}

int bh_ring_open(int dirfd, const char *name, struct bh_ring_reader *ret_reader,
                 struct bh_diag *diag)
{
    struct bh_ring_reader reader = {.fd = -1};
    struct bh_ring_name parsed;
    struct stat facts;
    int rc;

    if (!bh_ring_name_parse(name, &parsed)) {
        return bh_err_set(diag, BH_E_MALFORMED, NULL, "the file is not named like a ring");
    }
    reader.fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (reader.fd < 0) {
        return bh_err_sys(diag, errno, "a ring cannot be opened");
    }
    if (fstat(reader.fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != geteuid()) {
        rc = bh_err_set(diag, BH_E_UNSAFE_PATH, NULL, "a ring is not a regular file of our own");
        goto out;
    }
    rc = pread_full(reader.fd, &reader.facts, sizeof(reader.facts), 0);
    if (rc == BH_OK) {
        rc = check_header(&reader.facts, &parsed, diag);
    }
    if (rc == BH_OK && (uint64_t)facts.st_size < reader.facts.file_bytes) {
        rc = BH_E_TRUNCATED;
    }
    if (rc != BH_OK) {
        goto out;
    }
    end_texts(&reader.facts);
    reader.next = reader.facts.tail;
    if (reader.facts.tail != ~reader.facts.tail_check || !head_fits(&reader, reader.facts.head)) {
        rc = bh_err_set(diag, BH_E_MALFORMED, NULL, "the ring's head and tail are impossible");
        goto out;
    }
    *ret_reader = reader;
    return BH_OK;
out:
    close(reader.fd);
    return rc;
}

void bh_ring_close(struct bh_ring_reader *reader)
{
    if (reader->fd >= 0) {
        (void)close(reader->fd);
        reader->fd = -1;
    }
}

int bh_ring_header(struct bh_ring_reader *reader, struct bh_ring_header *ret_header)
{
    struct bh_ring_header now;
    int rc = pread_full(reader->fd, &now, sizeof(now), 0);

    if (rc != BH_OK) {
        return rc;
    }
    if (!head_fits(reader, now.head) || now.arena_used > reader->facts.arena_bytes ||
        now.arena_used < reader->arena_read) {
        return BH_E_MALFORMED;
    }
    end_texts(&now);
    memcpy(&now, &reader->facts, offsetof(struct bh_ring_header, attach_active_bytes));
    /* what the header says was stored before what is read from here on */
    order_reads();
    *ret_header = now;
    return BH_OK;
}

/* ---- slots ------------------------------------------------------------------------- */

static uint64_t slot_offset(const struct bh_ring_reader *reader, uint64_t ticket)
{
    uint64_t index = ticket & ((uint64_t)reader->facts.slot_count - 1);

    return BH_RING_HEADER_BYTES + index * BH_RING_SLOT_BYTES;
}

static size_t count_ready(const struct bh_ring_slot *slots, uint64_t first, size_t count)
{
    size_t at = 0;

    while (at < count && slots[at].sequence == first + at + 1) {
        at++;
    }
    return at;
}

/* Reads twice: a copy made in one go may hold a slot's ready mark and, before it, bytes from before
 * the mark. The second copy is made after the first was seen to be ready. */
int bh_ring_slots(struct bh_ring_reader *reader, uint64_t head, struct bh_ring_slot *ret_slots,
                  size_t max, size_t *ret_count)
{
    uint64_t size = reader->facts.slot_count;
    uint64_t wanted = head - reader->next;
    uint64_t offset = slot_offset(reader, reader->next);
    uint64_t until_end;
    size_t count;
    int rc;

    *ret_count = 0;
    if (size == 0 || wanted == 0 || max == 0) {
        return BH_OK;
    }
    if (wanted > size) {
        return BH_E_MALFORMED;
    }
    until_end = size - (reader->next & (size - 1));
    wanted = wanted < until_end ? wanted : until_end;
    count = wanted < max ? (size_t)wanted : max;
    rc = pread_full(reader->fd, ret_slots, count * BH_RING_SLOT_BYTES, offset);
    if (rc != BH_OK) {
        return rc;
    }
    count = count_ready(ret_slots, reader->next, count);
    if (count == 0) {
        return BH_OK;
    }
    order_reads();
    rc = pread_full(reader->fd, ret_slots, count * BH_RING_SLOT_BYTES, offset);
    if (rc != BH_OK) {
        return rc;
    }
    if (count_ready(ret_slots, reader->next, count) != count) {
        return BH_E_MALFORMED; /* a ready slot changed before it was released */
    }
    reader->next += count;
    *ret_count = count;
    return BH_OK;
}

void bh_ring_skip(struct bh_ring_reader *reader)
{
    reader->next++;
}

/* ---- life -------------------------------------------------------------------------- */

bool bh_ring_foreign(const struct bh_ring_reader *reader)
{
    struct stat own;

    return (reader->facts.flags & BH_RING_FLAG_LOCKED) != 0 &&
           stat("/proc/self/ns/pid", &own) == 0 && own.st_ino != reader->facts.pid_namespace;
}

bool bh_ring_held(const struct bh_ring_reader *reader)
{
    if (flock(reader->fd, LOCK_EX | LOCK_NB) != 0) {
        return true;
    }
    (void)flock(reader->fd, LOCK_UN);
    return false;
}

/* ---- what the reader stores -------------------------------------------------------- */

static int pwrite_whole(int fd, const void *data, size_t length, uint64_t offset)
{
    ssize_t written = pwrite(fd, data, length, (off_t)offset);

    if (written < 0) {
        return bh_err_from_errno(errno);
    }
    return (size_t)written == length ? BH_OK : BH_E_IO;
}

int bh_ring_release(const struct bh_ring_reader *reader, uint64_t tail)
{
    uint64_t words[2] = {tail, ~tail};

    if (reader->facts.slot_count == 0) {
        return BH_OK;
    }
    return pwrite_whole(reader->fd, words, sizeof(words), offsetof(struct bh_ring_header, tail));
}

int bh_ring_control(const struct bh_ring_reader *reader, bool on)
{
    uint32_t word = on ? BH_RING_CONTROL_ON : 0;

    return pwrite_whole(reader->fd, &word, sizeof(word), offsetof(struct bh_ring_header, control));
}

/* ---- arena ------------------------------------------------------------------------- */

int bh_ring_arena(const struct bh_ring_reader *reader, uint64_t used, unsigned char *ret_bytes,
                  size_t size, size_t *ret_length)
{
    uint64_t left = used - reader->arena_read;
    size_t length = left < size ? (size_t)left : size;
    int rc;

    if (used < reader->arena_read || used > reader->facts.arena_bytes) {
        return BH_E_MALFORMED;
    }
    rc = pread_full(reader->fd, ret_bytes, length, reader->facts.arena_offset + reader->arena_read);
    if (rc == BH_OK) {
        *ret_length = length;
    }
    return rc;
}

/* How many bytes a record of this kind and count must have; 0 = impossible. */
static uint32_t whole_bytes(const struct bh_ring_record *record)
{
    uint32_t bytes;

    if (record->kind == BH_RING_ARENA_STRING) {
        bytes = record->count > BH_RING_STRING_BYTES_MAX
                    ? 0
                    : BH_RING_ARENA_PREFIX_BYTES + record->count;
    } else if (record->kind == BH_RING_ARENA_STACK) {
        bytes =
            record->count > BH_RING_DEPTH_MAX ? 0 : BH_RING_ARENA_PREFIX_BYTES + record->count * 4;
    } else {
        bytes = BH_RING_ARENA_FRAME_BYTES;
    }
    return (bytes + 7) & ~7u;
}

int bh_ring_record(const unsigned char *bytes, size_t length, struct bh_ring_record *ret_record)
{
    struct bh_ring_record record = {0};
    uint32_t whole;

    if (length < BH_RING_ARENA_PREFIX_BYTES) {
        return 0;
    }
    record.kind = bh_le_get16(bytes);
    whole = bh_le_get32(bytes + 4);
    record.id = bh_le_get32(bytes + 8);
    record.count = bh_le_get32(bytes + 12);
    if (whole < BH_RING_ARENA_PREFIX_BYTES || whole > BH_RING_RECORD_BYTES_MAX || whole % 8 != 0) {
        return BH_E_MALFORMED;
    }
    if (record.kind >= BH_RING_ARENA_STRING && record.kind <= BH_RING_ARENA_STACK &&
        whole != whole_bytes(&record)) {
        return BH_E_MALFORMED;
    }
    if (length < whole) {
        return 0;
    }
    record.bytes = bytes + BH_RING_ARENA_PREFIX_BYTES;
    if (record.kind == BH_RING_ARENA_FRAME) {
        record.file = record.count;
        record.function = bh_le_get32(bytes + 16);
        record.line = bh_le_get32(bytes + 20);
        record.count = 0;
    }
    *ret_record = record;
    return (int)whole;
}

void bh_ring_arena_advance(struct bh_ring_reader *reader, size_t length)
{
    reader->arena_read += length;
}
