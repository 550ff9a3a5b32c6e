/* Copies the run directory of a finished job COUNT times under new ids, as if as many jobs had run
 * one second apart, the last one an hour ago. Real records: every file that names the run (spec,
 * journal, samples, event log, status, report) is decoded and encoded again with the new id, for
 * its checksums hang on it. A recorder's segments do not, so they are copied.
 *
 *     clone_run RUNDIR JOBS COUNT
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/random.h"
#include "core/wire/evlog.h"
#include "core/wire/evlog_layout.h"
#include "core/wire/journal.h"
#include "core/wire/spec_file.h"
#include "core/wire/status_file.h"

#define MAX_FILE (16u << 20)

enum { SPEC, JOURNAL, SAMPLES, EVLOG, STATUS, REPORT, FILES };
static const char *const names[FILES] = {"spec.bin",   "journal.bhj", "samples.0",
                                         "events.bhe", "status.bin",  "report.json"};
static const char *const empty[] = {"out.log", "err.log", "lock"};

static struct bh_bytes original[FILES];
static struct bh_job_spec *spec;

static void must(int result, const char *what, const char *name)
{
    if (result >= 0)
        return;
    (void)fprintf(stderr, "clone_run: %s %s: %s\n", what, name, bh_err_code(result));
    exit(1);
}

static void clone_records(const struct bh_bytes *from, const char *id, struct bh_bytes *to,
                          const char *name)
{
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    struct bh_journal_header header;
    struct bh_record record;
    must(bh_journal_header_decode(from->data, from->length, &header), "decode", name);
    memcpy(header.run_id, id, BH_JOB_ID_SIZE);
    bh_journal_header_encode(&header, bytes);
    bh_bytes_append(to, bytes, BH_JOURNAL_HEADER_BYTES);
    for (size_t at = BH_JOURNAL_HEADER_BYTES; at < from->length;) {
        int length = bh_record_decode(from->data + at, from->length - at, spec->id, &record);
        must(length == 0 ? BH_E_TRUNCATED : length, "decode", name);
        int written = bh_record_encode(&record, id, bytes, sizeof bytes);
        must(written == length ? 0 : BH_E_MALFORMED, "encode", name);
        bh_bytes_append(to, bytes, (size_t)written);
        at += (size_t)length;
    }
}

static void clone_evlog(const struct bh_bytes *from, const char *id, struct bh_bytes *to)
{
    unsigned char bytes[BH_EVLOG_HEADER_BYTES];
    struct bh_evlog_header header;
    must(bh_evlog_header_decode(from->data, from->length, &header), "decode", names[EVLOG]);
    memcpy(header.run_id, id, BH_JOB_ID_SIZE);
    bh_evlog_header_encode(&header, bytes);
    bh_bytes_append(to, bytes, sizeof bytes);
    bh_bytes_append(to, from->data + sizeof bytes, from->length - sizeof bytes);
}

static void clone_status(const struct bh_bytes *from, const char *id, struct bh_bytes *to)
{
    unsigned char bytes[BH_STATUS_FILE_BYTES];
    struct bh_status status;
    must(bh_status_file_decode(from->data, from->length, &status), "decode", names[STATUS]);
    memcpy(status.run_id, id, BH_JOB_ID_SIZE);
    bh_status_file_encode(&status, bytes);
    bh_bytes_append(to, bytes, sizeof bytes);
}

static void clone_text(const struct bh_bytes *from, const char *id, struct bh_bytes *to)
{
    bh_bytes_append(to, from->data, from->length);
    for (char *at = (char *)to->data; (at = strstr(at, spec->id)); at += BH_JOB_ID_SIZE - 1)
        memcpy(at, id, BH_JOB_ID_SIZE - 1);
}

static void put(int dirfd, const char *name, const struct bh_bytes *bytes)
{
    int fd = -1;
    must(bh_io_create(dirfd, name, O_WRONLY, &fd, NULL), "create", name);
    must(bh_io_write_full(fd, bytes->data, bytes->length), "write", name);
    (void)close(fd);
}

static void clone(int jobs_fd, struct bh_wall at)
{
    struct bh_bytes copies[FILES] = {0}, none = {0};
    struct bh_job_spec own = *spec;
    int dirfd = -1;
    must(bh_random_job_id(at, own.id), "make", "id");
    own.created_at = at;
    must(bh_spec_file_encode(&own, &copies[SPEC], NULL), "encode", names[SPEC]);
    clone_records(&original[JOURNAL], own.id, &copies[JOURNAL], names[JOURNAL]);
    clone_records(&original[SAMPLES], own.id, &copies[SAMPLES], names[SAMPLES]);
    clone_evlog(&original[EVLOG], own.id, &copies[EVLOG]);
    clone_status(&original[STATUS], own.id, &copies[STATUS]);
    clone_text(&original[REPORT], own.id, &copies[REPORT]);
    must(bh_io_make_dir(jobs_fd, own.id, false, &dirfd, NULL), "create", own.id);
    for (int i = 0; i < FILES; i++) {
        must(copies[i].failed ? BH_E_NOMEM : 0, "copy", names[i]);
        put(dirfd, names[i], &copies[i]);
        bh_bytes_done(&copies[i]);
    }
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++)
        put(dirfd, empty[i], &none);
    (void)close(dirfd);
}

int main(int argc, char **argv)
{
    int from_fd = -1, jobs_fd = -1;
    if (argc != 4)
        return 64;
    must(bh_io_open_dir(AT_FDCWD, argv[1], &from_fd, NULL), "open", argv[1]);
    must(bh_io_open_dir(AT_FDCWD, argv[2], &jobs_fd, NULL), "open", argv[2]);
    for (int i = 0; i < FILES; i++)
        must(bh_io_read_file(from_fd, names[i], MAX_FILE, &original[i], NULL), "read", names[i]);
    must(bh_spec_file_decode(original[SPEC].data, original[SPEC].length, &spec, NULL), "decode",
         names[SPEC]);
    long count = strtol(argv[3], NULL, 10);
    int64_t end_us = bh_clock_wall().us - INT64_C(3600) * 1000000;
    for (long i = 0; i < count; i++)
        clone(jobs_fd, (struct bh_wall){end_us - (count - i) * INT64_C(1000000)});
    return 0;
}
