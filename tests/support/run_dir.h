/* A run directory with its runtime folder, queue, lock and helpers' pipes, as boot.c makes them,
 * for tests of what stands behind the decider. */
#ifndef BH_TESTS_RUN_DIR_H
#define BH_TESTS_RUN_DIR_H

#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>

#include "core/platform/platform.h"
#include "core/super/helpers.h"
#include "core/super/super.h"
#include "core/wire/journal.h"
#include "core/wire/spec_file.h"
#include "records.h"
#include "scratch.h"

struct run_dir {
    struct scratch run, runtime;
    struct bh_job_spec spec;
    const char *argv[3];
    struct bh_run state;
};

static inline void run_dir_write(int dirfd, const char *name, const void *data, size_t length)
{
    if (bh_io_replace(dirfd, name, data, length, false, NULL) < 0)
        abort();
}

static inline void run_dir_open(struct run_dir *dir)
{
    struct bh_run *run = &dir->state;
    struct bh_bytes bytes = {0};
    char text[PATH_MAX + 64];
    scratch_open(&dir->run);
    scratch_open(&dir->runtime);
    bh_job_spec_init(&dir->spec);
    (void)strcpy(dir->spec.id, RECORDS_RUN_ID);
    dir->argv[0] = "/bin/sleep";
    dir->argv[1] = "1000";
    dir->spec.argv = dir->argv;
    dir->spec.argc = 2;
    dir->spec.mode = BH_MODE_ENFORCE;
    dir->spec.limit_bytes = 1u << 30;
    dir->spec.grace_base_ns = 200 * BH_NS_PER_MS;
    dir->spec.kill_retry_ns = 100 * BH_NS_PER_MS;
    if (bh_job_spec_resolve(&dir->spec, NULL) < 0 ||
        bh_spec_file_encode(&dir->spec, &bytes, NULL) < 0)
        abort();
    run_dir_write(dir->run.fd, BH_SPEC_FILE_NAME, bytes.data, bytes.length);
    bh_bytes_done(&bytes);
    bh_run_init(run);
    run->spec = &dir->spec;
    run->anchor = bh_clock_anchor();
    (void)strcpy(run->id, RECORDS_RUN_ID);
    (void)strcpy(run->path, dir->run.path);
    (void)strcpy(run->runtime_path, dir->runtime.path);
    if (bh_platform_boot_id(run->boot_id, sizeof run->boot_id) < 0)
        abort();
    (void)snprintf(text, sizeof text, "%s\n%s\n", run->runtime_path, run->boot_id);
    run_dir_write(dir->run.fd, BH_RUN_RUNTIME_NAME, text, strlen(text));
    run->run_fd = dup(dir->run.fd);
    run->runtime_fd = dup(dir->runtime.fd);
    run->lock_fd = openat(run->run_fd, BH_RUN_LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (flock(run->lock_fd, LOCK_EX | LOCK_NB) < 0 ||
        bh_io_make_dir(run->runtime_fd, BH_RUN_RINGS_NAME, false, &run->rings_fd, NULL) < 0 ||
        bh_queue_create(run->runtime_fd, run->id, run->anchor, &run->queue, NULL) < 0)
        abort();
}

static inline void run_dir_close(struct run_dir *dir)
{
    bh_run_done(&dir->state);
    scratch_close(&dir->runtime);
    scratch_close(&dir->run);
}

/* True once the condition holds; false after ten seconds. */
#define WAIT_FOR(condition) wait_for_loop_(condition)
#define wait_for_loop_(condition)                                                                  \
    __extension__({                                                                                \
        bool held_ = false;                                                                        \
        for (int look_ = 0; look_ < 5000 && !(held_ = (condition)); look_++) {                     \
            struct timespec pause_ = {.tv_nsec = 2000000};                                         \
            (void)nanosleep(&pause_, NULL);                                                        \
        }                                                                                          \
        held_;                                                                                     \
    })

static inline bool run_dir_has(const struct run_dir *dir, const char *name)
{
    return faccessat(dir->run.fd, name, F_OK, 0) == 0;
}

/* Nobody of ours holds the lock any more. */
static inline bool run_dir_unlocked(const struct run_dir *dir)
{
    int fd = openat(dir->run.fd, BH_RUN_LOCK_NAME, O_RDWR | O_CLOEXEC);
    bool got = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        (void)close(fd);
    return got;
}

/* How many records of a kind the journal's valid prefix holds, and the last of them. */
static inline int run_dir_count(const struct run_dir *dir, int kind, struct bh_record *ret_last,
                                enum bh_journal_end *ret_end)
{
    struct bh_journal_reader *reader = NULL;
    struct bh_record record;
    int count = 0;
    int fd = -1;
    if (bh_io_open(dir->run.fd, BH_JOURNAL_FILE_NAME, O_RDONLY, &fd, NULL) < 0)
        return 0;
    if (bh_journal_reader_new(fd, &reader, NULL) == BH_OK) {
        while (bh_journal_reader_next(reader, &record) == 1) {
            if ((int)record.kind != kind)
                continue;
            count++;
            if (ret_last)
                *ret_last = record;
        }
        if (ret_end)
            *ret_end = bh_journal_reader_end(reader);
    }
    bh_journal_reader_free(reader);
    (void)close(fd);
    return count;
}

static inline void run_dir_put(struct run_dir *dir, struct bh_record *record)
{
    record->at = bh_clock_mono();
    if (bh_queue_put(dir->state.queue, record) < 0)
        abort();
}

static inline void run_dir_put_kind(struct run_dir *dir, int kind)
{
    struct bh_record record = record_of_kind(kind, 0);
    run_dir_put(dir, &record);
}

/* CONFIG, HOST, LAUNCHED of this process as root, as a decider begins. */
static inline void run_dir_begin(struct run_dir *dir, int root_pid)
{
    struct bh_record record;
    struct bh_queue_member member = {.pid = (uint32_t)root_pid, .flags = BH_QUEUE_MEMBER_LIVE};
    run_dir_put_kind(dir, BH_RECORD_CONFIG);
    run_dir_put_kind(dir, BH_RECORD_HOST);
    if (bh_platform_start_token(root_pid, &member.start_token) < 0)
        abort();
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_LAUNCHED;
    record.launched.root_pid = root_pid;
    record.launched.group = root_pid;
    record.launched.root_start_token = member.start_token;
    record.launched.started_at = bh_clock_wall();
    run_dir_put(dir, &record);
    bh_queue_set_members(dir->state.queue, &member, 1);
    struct bh_status status;
    fill_status(&status);
    status.root_pid = root_pid;
    status.root_start_token = member.start_token;
    bh_queue_put_status(dir->state.queue, &status);
}

static inline void run_dir_sample(struct run_dir *dir, uint64_t bytes)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_SAMPLE;
    record.sample.captured_at = record.sample.processed_at = bh_clock_mono();
    record.sample.bytes = available(bytes);
    record.sample.members = 1;
    run_dir_put(dir, &record);
}

static inline void run_dir_end(struct run_dir *dir)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_EMPTY;
    record.empty.proven = true;
    run_dir_put(dir, &record);
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_OUTCOME;
    record.outcome.kind = BH_OUTCOME_CHILD_EXITED;
    record.outcome.cause = BH_CAUSE_COMPLETED;
    run_dir_put(dir, &record);
    bh_queue_set_final(dir->state.queue);
    bh_queue_wake(dir->state.queue);
}

/* A process that is stopped for the test; its own session, so that it is no child of the scribe.
 * When this returns it holds none of our descriptors (as after an exec), neither lock nor pipes,
 * and prepare has run in it; it then runs `live`, which does not return. */
static inline int run_dir_process(void (*prepare)(void), void (*live)(void))
{
    int ends[2];
    char byte;
    if (pipe(ends) < 0)
        abort();
    pid_t pid = fork();
    if (pid == 0) {
        (void)setsid();
        for (int fd = 3; fd < 256; fd++)
            if (fd != ends[1])
                (void)close(fd);
        prepare();
        (void)close(ends[1]);
        live();
        _exit(99);
    }
    (void)close(ends[1]);
    if (read(ends[0], &byte, 1) != 0)
        abort();
    (void)close(ends[0]);
    return (int)pid;
}

static inline void run_dir_hear_term(void)
{
    (void)signal(SIGTERM, SIG_DFL);
}

static inline void run_dir_ignore_term(void)
{
    (void)signal(SIGTERM, SIG_IGN);
}

static inline void run_dir_sleep(void)
{
    for (;;)
        (void)pause();
}

static inline int run_dir_victim(bool ignores_term)
{
    return run_dir_process(ignores_term ? run_dir_ignore_term : run_dir_hear_term, run_dir_sleep);
}

/* For cmocka: a run directory of its own for each test. */
static inline int run_dir_setup(void **state)
{
    struct run_dir *dir = calloc(1, sizeof *dir);
    run_dir_open(dir);
    *state = dir;
    return 0;
}

static inline int run_dir_teardown(void **state)
{
    run_dir_close(*state);
    free(*state);
    return 0;
}

#endif
