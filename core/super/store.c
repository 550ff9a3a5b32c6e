#include "core/super/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/log.h"
#include "core/wire/le.h"

static void fail(struct bh_store *store, int error, const char *what)
{
    if (store->error)
        return;
    store->error = error;
    bh_log(BH_LOG_ERROR, "%s: %s; keeping nothing more, enforcement goes on", what,
           bh_err_title(error));
}

static int open_or_create(int dirfd, const char *name, int flags, int *ret_fd, struct bh_diag *diag)
{
    int result = bh_io_create(dirfd, name, flags, ret_fd, diag);
    return result == BH_E_EXISTS ? bh_io_open(dirfd, name, flags, ret_fd, diag) : result;
}

static int write_header(const struct bh_store *store, int fd)
{
    struct bh_journal_header header = {.anchor = store->run->anchor};
    memcpy(header.run_id, store->run->id, sizeof header.run_id);
    unsigned char bytes[BH_JOURNAL_HEADER_BYTES];
    bh_journal_header_encode(&header, bytes);
    return bh_io_write_full(fd, bytes, sizeof bytes);
}

static void write_batch(struct bh_store *store)
{
    if (store->samples_used && !store->error) {
        int result = bh_io_write_full(store->samples_fd, store->samples, store->samples_used);
        if (result < 0)
            fail(store, result, "samples");
    }
    if (store->batch_used && !store->error) {
        int result = bh_io_write_full(store->journal_fd, store->batch, store->batch_used);
        if (result < 0)
            fail(store, result, "journal");
        store->dirty = true;
    }
    store->samples_used = 0;
    store->batch_used = 0;
}

/* ---- samples files ---- */

static void samples_name(int number, char ret_name[static 16])
{
    (void)snprintf(ret_name, 16, "samples.%d", number);
}

/* What a scribe that died had taken: its last sample, and those that no span has told yet. The file
 * with the newest samples goes on; it holds the only copy of them. */
static void resume_samples(struct bh_store *store, int number, struct bh_mono told)
{
    char name[16];
    int fd = -1;
    struct bh_journal_reader *reader = NULL;
    struct bh_record record;
    uint64_t since = 0;
    samples_name(number, name);
    if (bh_io_open(store->run->run_fd, name, O_RDWR | O_APPEND, &fd, NULL) < 0)
        return;
    if (bh_journal_reader_new(fd, &reader, NULL) == BH_OK &&
        strcmp(bh_journal_reader_header(reader)->run_id, store->run->id) == 0) {
        while (bh_journal_reader_next(reader, &record) == 1) {
            since = since ? since : record.at.ns;
            if (record.sequence > store->sample_sequence) {
                store->sample_sequence = record.sequence;
                store->samples_number = number;
                store->samples_since.ns = since;
            }
            if (record.sample.captured_at.ns > told.ns)
                bh_sample_span_add(&store->span, &record.sample);
        }
        /* a torn end would hide what is appended behind it */
        if (store->samples_number == number &&
            ftruncate(fd, (off_t)bh_journal_reader_offset(reader)) < 0)
            store->samples_number ^= 1;
    }
    bh_journal_reader_free(reader);
    (void)close(fd);
}

static int open_samples(struct bh_store *store, bool anew)
{
    char name[16];
    samples_name(store->samples_number, name);
    int result =
        open_or_create(store->run->run_fd, name, O_WRONLY | O_APPEND, &store->samples_fd, NULL);
    if (result < 0 || !anew)
        return result;
    if (ftruncate(store->samples_fd, 0) < 0)
        return bh_err_from_errno(errno);
    return write_header(store, store->samples_fd);
}

/* The other file begins anew once the present one covers its minute. */
static void turn_samples(struct bh_store *store, struct bh_mono now)
{
    bool first = store->samples_fd < 0;
    bool full =
        store->samples_since.ns == 0 || now.ns - store->samples_since.ns >= BH_STORE_SAMPLES_NS;
    if (store->error || (!first && !full))
        return;
    if (store->samples_used)
        write_batch(store); /* they belong to the present file */
    if (!first)
        (void)close(store->samples_fd);
    store->samples_fd = -1;
    if (full && store->samples_since.ns != 0)
        store->samples_number ^= 1;
    if (full)
        store->samples_since = now;
    int result = open_samples(store, full);
    if (result < 0)
        fail(store, result, "samples");
}

/* ---- journal ---- */

static int open_journal(struct bh_store *store, struct bh_mono *ret_told, struct bh_diag *diag)
{
    struct bh_journal_resume resume = {0};
    int result = open_or_create(store->run->run_fd, BH_JOURNAL_FILE_NAME, O_RDWR | O_APPEND,
                                &store->journal_fd, diag);
    if (result == BH_OK)
        result = bh_journal_resume(store->journal_fd, store->run->id, &resume, diag);
    if (result == BH_OK && resume.bytes == 0)
        result = write_header(store, store->journal_fd);
    if (result < 0)
        return result;
    store->began_resumed = resume.bytes > 0;
    store->sequence = store->synced_sequence = resume.sequence;
    store->scribe_sequence = resume.scribe_sequence;
    store->has_outcome = resume.has_outcome;
    store->has_empty = resume.has_empty;
    store->last_at = resume.last_at;
    store->dirty = true; /* what the one before wrote may be unsynced */
    *ret_told = resume.samples_to;
    return BH_OK;
}

int bh_store_open(struct bh_store *store, const struct bh_run *run, struct bh_queue *queue,
                  struct bh_diag *diag)
{
    struct bh_mono told = {0};
    memset(store, 0, offsetof(struct bh_store, batch));
    store->run = run;
    store->queue = queue;
    store->journal_fd = -1;
    store->samples_fd = -1;
    int result = open_journal(store, &told, diag);
    if (result < 0) {
        fail(store, result, "journal");
        return result;
    }
    if (store->began_resumed) {
        resume_samples(store, 0, told);
        resume_samples(store, 1, told);
    }
    return BH_OK;
}

void bh_store_close(struct bh_store *store)
{
    if (store->journal_fd >= 0)
        (void)close(store->journal_fd);
    if (store->samples_fd >= 0)
        (void)close(store->samples_fd);
    store->journal_fd = store->samples_fd = -1;
}

/* Releases the queue's entries only once they lie in a file (or persistence has ended). */
static void write_and_release(struct bh_store *store)
{
    write_batch(store);
    bh_queue_taken(store->queue);
}

struct bh_mono bh_store_now(const struct bh_store *store)
{
    struct bh_mono now = bh_clock_mono();
    return store->other_boot || now.ns < store->last_at.ns ? store->last_at : now;
}

void bh_store_add(struct bh_store *store, struct bh_record *record)
{
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    if (store->error)
        return;
    record->by_scribe = true;
    record->sequence = store->scribe_sequence + 1;
    int length = bh_record_encode(record, store->run->id, bytes, sizeof bytes);
    if (length < 0)
        return;
    if (store->batch_used + (size_t)length > sizeof store->batch)
        write_batch(store);
    memcpy(store->batch + store->batch_used, bytes, (size_t)length);
    store->batch_used += (size_t)length;
    store->scribe_sequence++;
    store->sync_wanted |= bh_record_kind_syncs((int)record->kind);
    store->has_outcome |= record->kind == BH_RECORD_OUTCOME;
    store->has_empty |= record->kind == BH_RECORD_EMPTY;
    write_batch(store);
}

void bh_store_flush_span(struct bh_store *store)
{
    if (bh_sample_span_empty(&store->span))
        return;
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_SAMPLES;
    record.at = store->span.record.to;
    record.samples = store->span.record;
    record.samples.active = store->active;
    record.samples.reserved = store->reserved;
    bh_store_add(store, &record);
    memset(&store->span, 0, sizeof store->span);
}

/* ---- the queue's entries ---- */

static void take_sample(struct bh_store *store, const unsigned char *bytes, size_t length)
{
    struct bh_record record;
    if (bh_le_get64(bytes + 8) <= store->sample_sequence ||
        bh_record_decode(bytes, length, store->run->id, &record) <= 0)
        return;
    turn_samples(store, record.at);
    if (store->samples_used + length > sizeof store->samples)
        write_batch(store);
    memcpy(store->samples + store->samples_used, bytes, length);
    store->samples_used += length;
    store->sample_sequence = record.sequence;
    if (bh_sample_span_full(&store->span, &record.sample))
        bh_store_flush_span(store);
    bh_sample_span_add(&store->span, &record.sample);
}

static void take_mark(struct bh_store *store, const unsigned char *bytes, size_t length)
{
    struct bh_record record;
    if (store->on_mark && bh_record_decode(bytes, length, store->run->id, &record) > 0)
        store->on_mark(store->mark_context, &record);
}

static void take_one(struct bh_store *store, const unsigned char *bytes, size_t length)
{
    int kind = bh_le_get16(bytes + 4);
    store->last_at.ns = bh_le_get64(bytes + 16);
    if (kind == BH_RECORD_SAMPLE) {
        take_sample(store, bytes, length);
        return;
    }
    uint64_t sequence = bh_le_get64(bytes + 8);
    if (sequence <= store->sequence)
        return; /* journalled by a scribe that died before it released the entry */
    if (kind == BH_RECORD_OUTCOME || kind == BH_RECORD_EMPTY)
        bh_store_flush_span(store); /* samples precede the end that they led to */
    if (store->batch_used + length > sizeof store->batch)
        write_batch(store);
    memcpy(store->batch + store->batch_used, bytes, length);
    store->batch_used += length;
    store->sequence = sequence;
    store->sync_wanted |= bh_record_kind_syncs(kind);
    store->has_outcome |= kind == BH_RECORD_OUTCOME;
    store->has_empty |= kind == BH_RECORD_EMPTY;
    if (kind == BH_RECORD_MARK)
        take_mark(store, bytes, length);
}

size_t bh_store_take(struct bh_store *store)
{
    size_t count = 0;
    const unsigned char *bytes = NULL;
    size_t length = 0;
    if (!store->queue)
        return 0;
    int result;
    while ((result = bh_queue_peek(store->queue, &bytes, &length)) == 1) {
        take_one(store, bytes, length);
        count++;
    }
    if (result < 0)
        fail(store, result, "queue");
    if (count > 0)
        write_and_release(store);
    if (store->sync_wanted)
        bh_store_sync(store);
    return count;
}

void bh_store_sync(struct bh_store *store)
{
    if (store->error || !store->dirty)
        return;
    if (fdatasync(store->journal_fd) < 0) {
        fail(store, bh_err_from_errno(errno), "journal sync");
        return;
    }
    store->dirty = false;
    store->sync_wanted = false;
    store->synced_sequence = store->sequence;
}

/* ---- status.bin ---- */

static bool same_state(const struct bh_status *left, const struct bh_status *right)
{
    return left->state == right->state && left->policy_state == right->policy_state &&
           left->outcome == right->outcome && left->limits_revision == right->limits_revision &&
           left->checkpoint == right->checkpoint && left->recorder == right->recorder &&
           left->root_pid == right->root_pid;
}

void bh_store_status(struct bh_store *store, const struct bh_status *status, bool force)
{
    struct bh_mono now = bh_clock_mono();
    bool news = !store->has_status || !same_state(&store->status, status);
    bool due = store->has_status && now.ns - store->status_written.ns >= BH_NS_PER_S &&
               memcmp(&store->status, status, sizeof *status) != 0;
    if (!(news || due || force))
        return;
    unsigned char bytes[BH_STATUS_FILE_BYTES];
    bh_status_file_encode(status, bytes);
    int result =
        bh_io_replace(store->run->run_fd, BH_STATUS_FILE_NAME, bytes, sizeof bytes, false, NULL);
    if (result < 0)
        fail(store, result, "status");
    store->status = *status;
    store->has_status = true;
    store->status_written = now;
}
