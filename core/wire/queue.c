#include "core/wire/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/crc32c.h"
#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/wire/le.h"
#include "core/wire/queue_map.h"

static void encode_header(unsigned char *at, const char *run_id, struct bh_anchor anchor)
{
    memset(at, 0, QUEUE_WORDS_AT);
    bh_le_put32(at, BH_QUEUE_MAGIC);
    bh_le_put16(at + 4, BH_QUEUE_VERSION);
    bh_le_put16(at + 6, QUEUE_HEADER_BYTES);
    bh_le_put32(at + 12, BH_QUEUE_MEMBERS);
    memcpy(at + 16, run_id, BH_JOB_ID_SIZE - 1);
    bh_le_put32(at + 36, BH_QUEUE_RING_BYTES);
    bh_le_put64(at + 40, anchor.mono.ns);
    bh_le_put64(at + 48, (uint64_t)anchor.wall.us);
    bh_le_put32(at + 60, bh_crc32c(0, at, 60));
}

static int check_header(const unsigned char *at, const char *run_id, struct bh_diag *diag)
{
    if (bh_le_get32(at) != BH_QUEUE_MAGIC)
        return bh_err_set(diag, BH_E_MALFORMED, NULL, "queue.bin is no queue");
    if (bh_le_get16(at + 4) != BH_QUEUE_VERSION || bh_le_get32(at + 8) != 0)
        return bh_err_set(diag, BH_E_VERSION, NULL, "queue.bin is of another version");
    if (bh_le_get32(at + 60) != bh_crc32c(0, at, 60))
        return bh_err_set(diag, BH_E_CHECKSUM, NULL, "queue.bin has a damaged header");
    if (bh_le_get16(at + 6) != QUEUE_HEADER_BYTES || bh_le_get32(at + 12) != BH_QUEUE_MEMBERS ||
        bh_le_get32(at + 36) != BH_QUEUE_RING_BYTES)
        return bh_err_set(diag, BH_E_MALFORMED, NULL, "queue.bin has other sizes");
    if (memcmp(at + 16, run_id, BH_JOB_ID_SIZE - 1) != 0)
        return bh_err_set(diag, BH_E_MALFORMED, NULL, "queue.bin is of another run");
    return BH_OK;
}

static int map_file(int fd, const char *run_id, struct bh_queue **ret_queue, struct bh_diag *diag)
{
    struct bh_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "no memory for the queue");
    queue->map = mmap(NULL, QUEUE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (queue->map == MAP_FAILED) {
        int result = bh_err_sys(diag, errno, "cannot map queue.bin");
        free(queue);
        return result;
    }
    /* page aligned, and every word is naturally aligned in it */
    queue->words = (struct bh_queue_words *)(void *)(queue->map + QUEUE_WORDS_AT);
    memcpy(queue->run_id, run_id, BH_JOB_ID_SIZE - 1);
    *ret_queue = queue;
    return BH_OK;
}

int bh_queue_create(int dirfd, const char *run_id, struct bh_anchor anchor,
                    struct bh_queue **ret_queue, struct bh_diag *diag)
{
    BH_SCOPED_FD int fd = -1;
    int result = bh_io_create(dirfd, BH_QUEUE_FILE_NAME, O_RDWR, &fd, diag);
    if (result < 0)
        return result;
    /* every page now: a store into a hole could meet a full tmpfs and die of SIGBUS */
    int error = posix_fallocate(fd, 0, QUEUE_FILE_BYTES);
    if (error)
        return bh_err_sys(diag, error, "cannot allocate queue.bin");
    result = map_file(fd, run_id, ret_queue, diag);
    if (result < 0)
        return result;
    encode_header((*ret_queue)->map, run_id, anchor);
    (*ret_queue)->anchor = anchor;
    return BH_OK;
}

int bh_queue_open(int dirfd, const char *run_id, struct bh_queue **ret_queue, struct bh_diag *diag)
{
    BH_SCOPED_FD int fd = -1;
    struct stat st;
    int result = bh_io_open(dirfd, BH_QUEUE_FILE_NAME, O_RDWR, &fd, diag);
    if (result < 0)
        return result;
    if (fstat(fd, &st) < 0)
        return bh_err_sys(diag, errno, "cannot look at queue.bin");
    if (st.st_size != QUEUE_FILE_BYTES)
        return bh_err_set(diag, BH_E_TRUNCATED, NULL, "queue.bin has a wrong size");
    struct bh_queue *queue = NULL;
    result = map_file(fd, run_id, &queue, diag);
    if (result < 0)
        return result;
    result = check_header(queue->map, run_id, diag);
    if (result < 0) {
        bh_queue_free(queue);
        return result;
    }
    queue->anchor.mono.ns = bh_le_get64(queue->map + 40);
    queue->anchor.wall.us = (int64_t)bh_le_get64(queue->map + 48);
    queue->cursor = atomic_load_explicit(&queue->words->tail, memory_order_acquire);
    *ret_queue = queue;
    return BH_OK;
}

void bh_queue_free(struct bh_queue *queue)
{
    if (!queue)
        return;
    (void)munmap(queue->map, QUEUE_FILE_BYTES);
    free(queue);
}

struct bh_anchor bh_queue_anchor(const struct bh_queue *queue)
{
    return queue->anchor;
}

/* ---- status images ---- */

void bh_queue_put_status(struct bh_queue *queue, const struct bh_status *status)
{
    uint64_t next = atomic_load_explicit(&queue->words->generation, memory_order_relaxed) + 1;
    bh_status_file_encode(status, queue->map + QUEUE_STATUS_AT + (next & 1) * BH_STATUS_FILE_BYTES);
    atomic_store_explicit(&queue->words->generation, next, memory_order_release);
}

bool bh_queue_status(const struct bh_queue *queue, struct bh_status *ret_status)
{
    for (int attempt = 0; attempt < 8; attempt++) {
        unsigned char image[BH_STATUS_FILE_BYTES];
        uint64_t now = atomic_load_explicit(&queue->words->generation, memory_order_acquire);
        if (now == 0)
            return false;
        /* overwritten only by the second store from now: a torn copy fails its checksum */
        memcpy(image, queue->map + QUEUE_STATUS_AT + (now & 1) * BH_STATUS_FILE_BYTES,
               sizeof image);
        if (bh_status_file_decode(image, sizeof image, ret_status) == BH_OK)
            return true;
    }
    return false;
}

/* ---- members ---- */

void bh_queue_set_members(struct bh_queue *queue, const struct bh_queue_member *members,
                          size_t count)
{
    if (count > BH_QUEUE_MEMBERS)
        count = BH_QUEUE_MEMBERS;
    /* no lock: a reader checks each identity against the kernel before it acts on an entry */
    memcpy(queue->map + QUEUE_MEMBERS_AT, members, count * sizeof *members);
    atomic_store_explicit(&queue->words->member_count, (uint32_t)count, memory_order_release);
}

size_t bh_queue_members(const struct bh_queue *queue, struct bh_queue_member *ret_members,
                        size_t capacity)
{
    size_t count = atomic_load_explicit(&queue->words->member_count, memory_order_acquire);
    if (count > BH_QUEUE_MEMBERS)
        count = BH_QUEUE_MEMBERS;
    if (count > capacity)
        count = capacity;
    memcpy(ret_members, queue->map + QUEUE_MEMBERS_AT, count * sizeof *ret_members);
    return count;
}

/* ---- words ---- */

void bh_queue_set_recording(struct bh_queue *queue, bool enabled)
{
    atomic_store_explicit(&queue->words->recording, enabled ? 1 : 2, memory_order_release);
}

int bh_queue_recording(const struct bh_queue *queue)
{
    return (int)atomic_load_explicit(&queue->words->recording, memory_order_acquire);
}

void bh_queue_set_final(struct bh_queue *queue)
{
    atomic_store_explicit(&queue->words->final, 1, memory_order_release);
}

bool bh_queue_is_final(const struct bh_queue *queue)
{
    return atomic_load_explicit(&queue->words->final, memory_order_acquire) != 0;
}

uint64_t bh_queue_dropped(const struct bh_queue *queue)
{
    return atomic_load_explicit(&queue->words->dropped, memory_order_acquire);
}

void bh_queue_set_scribe(struct bh_queue *queue, const struct bh_queue_scribe *scribe)
{
    struct bh_queue_words *words = queue->words;
    const struct bh_record_recorder *recorder = &scribe->recorder;
    atomic_store_explicit(&words->events, recorder->events, memory_order_relaxed);
    atomic_store_explicit(&words->lost, recorder->lost, memory_order_relaxed);
    atomic_store_explicit(&words->holes, recorder->holes, memory_order_relaxed);
    atomic_store_explicit(&words->ring_bytes, recorder->ring_bytes, memory_order_relaxed);
    atomic_store_explicit(&words->stacks_lost, recorder->stacks_lost, memory_order_relaxed);
    atomic_store_explicit(&words->active_bytes, recorder->active.value, memory_order_relaxed);
    atomic_store_explicit(&words->active_status, recorder->active.status, memory_order_release);
    atomic_store_explicit(&words->reserved_bytes, recorder->reserved.value, memory_order_relaxed);
    atomic_store_explicit(&words->reserved_status, recorder->reserved.status, memory_order_release);
    atomic_store_explicit(&words->recorder_state, recorder->state, memory_order_release);
    atomic_store_explicit(&words->scribe_pid, (uint32_t)scribe->pid, memory_order_release);
    atomic_store_explicit(&words->artifact_error, scribe->artifact_error, memory_order_release);
    atomic_store_explicit(&words->evlog_bytes, scribe->evlog_bytes, memory_order_release);
    atomic_store_explicit(&words->journal_sequence, scribe->journal_sequence, memory_order_release);
    atomic_store_explicit(&words->scribe_ready, scribe->ready, memory_order_release);
    atomic_store_explicit(&words->report_failed, scribe->report_failed, memory_order_release);
    atomic_store_explicit(&words->report_done, scribe->report_done, memory_order_release);
}

static struct bh_observed load_observed(const _Atomic uint32_t *status,
                                        const _Atomic uint64_t *value)
{
    uint32_t number = atomic_load_explicit(status, memory_order_acquire);
    struct bh_observed observed = {
        .status = number <= BH_VALUE_ERROR ? (enum bh_value_status)number : BH_VALUE_UNKNOWN,
        .value = atomic_load_explicit(value, memory_order_relaxed),
    };
    return observed;
}

void bh_queue_scribe(const struct bh_queue *queue, struct bh_queue_scribe *ret_scribe)
{
    const struct bh_queue_words *words = queue->words;
    memset(ret_scribe, 0, sizeof *ret_scribe);
    struct bh_record_recorder *recorder = &ret_scribe->recorder;
    uint32_t state = atomic_load_explicit(&words->recorder_state, memory_order_acquire);
    recorder->state = state <= BH_RECORDER_LOSSY ? (enum bh_recorder_state)state : BH_RECORDER_OFF;
    recorder->events = atomic_load_explicit(&words->events, memory_order_relaxed);
    recorder->lost = atomic_load_explicit(&words->lost, memory_order_relaxed);
    recorder->holes = atomic_load_explicit(&words->holes, memory_order_relaxed);
    recorder->ring_bytes = atomic_load_explicit(&words->ring_bytes, memory_order_relaxed);
    recorder->stacks_lost = atomic_load_explicit(&words->stacks_lost, memory_order_relaxed);
    recorder->active = load_observed(&words->active_status, &words->active_bytes);
    recorder->reserved = load_observed(&words->reserved_status, &words->reserved_bytes);
    ret_scribe->report_done = atomic_load_explicit(&words->report_done, memory_order_acquire) != 0;
    ret_scribe->report_failed =
        atomic_load_explicit(&words->report_failed, memory_order_acquire) != 0;
    ret_scribe->ready = atomic_load_explicit(&words->scribe_ready, memory_order_acquire) != 0;
    ret_scribe->pid = (int)atomic_load_explicit(&words->scribe_pid, memory_order_acquire);
    ret_scribe->artifact_error = atomic_load_explicit(&words->artifact_error, memory_order_acquire);
    ret_scribe->journal_sequence =
        atomic_load_explicit(&words->journal_sequence, memory_order_acquire);
    ret_scribe->evlog_bytes = atomic_load_explicit(&words->evlog_bytes, memory_order_acquire);
}
