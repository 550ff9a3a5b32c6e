/* A ring file of any bytes, drained: nothing may crash, hang or grow without bound, and what is
 * written to the event log must be readable and consistent. The input is a sequence of (offset,
 * bytes) patches on a well-formed small ring, so that the fuzzer reaches what lies behind the
 * header's checks; with the first byte odd it is the file itself. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/super/drain.h"
#include "core/wire/ring_read.h"

#define SLOTS    64u
#define ARENA    4096u
#define FILE_MAX (BH_RING_HEADER_BYTES + SLOTS * BH_RING_SLOT_BYTES + ARENA)
#define NAME     "2147483647-5-0.ring" /* no such process */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];
static int rings_fd, log_fd;

static void remove_folder(void)
{
    (void)unlinkat(rings_fd, NAME, 0);
    (void)rmdir(folder);
}

static void prepare(void)
{
    bh_log_setup("fuzz", BH_LOG_ERROR);
    (void)snprintf(folder, sizeof(folder), "/dev/shm/bh-fuzz-ring-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        abort();
    }
    (void)atexit(remove_folder);
    rings_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    log_fd = memfd_create("events", MFD_CLOEXEC);
    if (rings_fd < 0 || log_fd < 0 || fcntl(log_fd, F_SETFL, O_APPEND) != 0) {
        abort();
    }
}

static void put(unsigned char *file, uint16_t kind, uint32_t bytes, uint32_t a, uint32_t b,
                const void *rest, size_t rest_bytes, uint64_t *used)
{
    unsigned char *record =
        file + BH_RING_HEADER_BYTES + SLOTS * BH_RING_SLOT_BYTES + (size_t)*used;

    memcpy(record, &kind, 2);
    memcpy(record + 4, &bytes, 4);
    memcpy(record + 8, &a, 4);
    memcpy(record + 12, &b, 4);
    memcpy(record + 16, rest, rest_bytes);
    *used += bytes;
}

/* 32 slots of all kinds over few addresses, and an arena with one of everything. */
static void good_ring(unsigned char *file)
{
    static const uint32_t frame_rest[2] = {1, 9}, stack_rest[1] = {1};
    struct bh_ring_header header = {
        .magic = BH_RING_MAGIC,
        .version = BH_RING_VERSION,
        .header_bytes = BH_RING_HEADER_BYTES,
        .slot_count = SLOTS,
        .arena_offset = BH_RING_HEADER_BYTES + SLOTS * BH_RING_SLOT_BYTES,
        .arena_bytes = ARENA,
        .file_bytes = FILE_MAX,
        .pid = 2147483647,
        .start_token = 5,
        .tail_check = ~(uint64_t)0,
        .head = 32,
        .state = BH_RING_STATE_ATTACHED,
    };
    uint64_t at;

    put(file, BH_RING_ARENA_STRING, 24, 1, 4, "a.py", 4, &header.arena_used);
    put(file, BH_RING_ARENA_FRAME, 24, 1, 1, frame_rest, 8, &header.arena_used);
    put(file, BH_RING_ARENA_STACK, 24, 1, 1, stack_rest, 4, &header.arena_used);
    for (at = 0; at < 32; at++) {
        static const uint8_t kinds[] = {17, 18, 1, 20, 4, 2, 7, 5, 1, 16, 3, 6, 19, 17, 21, 18};
        struct bh_ring_slot slot = {.sequence = at + 1,
                                    .time_ns = at,
                                    .address = 0x1000 * (1 + at % 3),
                                    .size_bytes = 64,
                                    .requested_bytes = at,
                                    .stack = 1,
                                    .primitive = 1,
                                    .kind = kinds[at % sizeof(kinds)]};

        memcpy(file + BH_RING_HEADER_BYTES + at * BH_RING_SLOT_BYTES, &slot, sizeof(slot));
    }
    memcpy(file, &header, sizeof(header));
}

static size_t make_file(const uint8_t *data, size_t size, unsigned char *file)
{
    if (size > 0 && data[0] % 2 == 1) {
        size = size - 1 < FILE_MAX ? size - 1 : FILE_MAX;
        memcpy(file, data + 1, size);
        return size;
    }
    memset(file, 0, FILE_MAX);
    good_ring(file);
    data += size > 0;
    size -= size > 0;
    while (size >= 4) {
        size_t offset = (size_t)(data[0] | data[1] << 8) % FILE_MAX;
        size_t length = data[2] % 32u;

        /* most of the header is reserved: aim at what means something */
        if (data[3] % 4 == 0) {
            offset %= 320;
        }
        data += 4;
        size -= 4;
        length = length < size ? length : size;
        length = length < FILE_MAX - offset ? length : FILE_MAX - offset;
        memcpy(file + offset, data, length);
        data += length;
        size -= length;
    }
    return FILE_MAX;
}

static void check_log(void)
{
    static unsigned char log[1 << 20];
    ssize_t got = pread(log_fd, log, sizeof(log), 0);
    size_t at = BH_EVLOG_HEADER_BYTES;
    uint64_t sequence = 0;

    while (got > 0 && at < (size_t)got) {
        struct bh_evlog_segment segment;
        struct bh_evlog_cursor cursor;
        struct bh_evlog_record record;
        int more, length = bh_evlog_segment_decode(log + at, (size_t)got - at, &segment);

        if (length <= 0) {
            abort();
        }
        bh_evlog_cursor_open(&cursor, &segment);
        while ((more = bh_evlog_cursor_next(&cursor, &record)) > 0) {
            if (record.kind <= BH_EVLOG_MARK && record.sequence != ++sequence) {
                abort();
            }
        }
        if (more < 0) {
            abort();
        }
        at += (size_t)length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char file[FILE_MAX];
    struct bh_drain *drain;
    size_t length;
    int fd;

    if (folder[0] == '\0') {
        prepare();
    }
    length = make_file(data, size, file);
    fd = openat(rings_fd, NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, file, length) != (ssize_t)length || ftruncate(log_fd, 0) != 0) {
        abort();
    }
    (void)close(fd);
    if (bh_drain_new(rings_fd, log_fd, "00000000000000000000", (struct bh_anchor){{0}, {0}}, 0,
                     &drain, NULL) != BH_OK) {
        abort();
    }
    (void)bh_drain_step(drain);
    (void)bh_drain_finish(drain);
    bh_drain_free(drain);
    check_log();
    return 0;
}
