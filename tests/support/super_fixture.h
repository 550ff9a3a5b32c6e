/* A loop on the scripted machine, for tests of the supervisor: begin, script processes, run turns,
 * look at the records. One at a time; everything comes from calloc, so that sanitizers see it. */
#ifndef BH_TESTS_SUPER_FIXTURE_H
#define BH_TESTS_SUPER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/platform/fake.h"
#include "core/super/loop.h"

#define MIB         (1ull << 20)
#define GIB         (1ull << 30)
#define ROOT_PID    500
#define MAX_RECORDS 4096

struct fixture {
    struct bh_fake fake;
    struct bh_platform os;
    struct bh_job_spec spec;
    struct bh_run run;
    struct bh_loop *loop;
    struct bh_record *records;
    size_t record_count;
    struct bh_fake_process *root;
};

static void keep_record(void *context, const struct bh_record *record)
{
    struct fixture *fixture = context;
    if (record->kind != BH_RECORD_SAMPLE && fixture->record_count < MAX_RECORDS)
        fixture->records[fixture->record_count++] = *record;
}

/* Defaults: 1 GiB limit, root of 100 MiB that ends 10 ms after TERM. Change spec and fake, then
 * fixture_launch. */
static inline struct fixture *fixture_new(void)
{
    static const char *const argv[] = {"job", NULL};
    struct fixture *fixture = calloc(1, sizeof *fixture);
    if (!fixture)
        abort();
    fixture->records = calloc(MAX_RECORDS, sizeof *fixture->records);
    fixture->loop = calloc(1, sizeof *fixture->loop);
    if (!fixture->records || !fixture->loop)
        abort();
    bh_fake_init(&fixture->fake, &fixture->os);
    bh_job_spec_init(&fixture->spec);
    fixture->spec.mode = BH_MODE_ENFORCE;
    fixture->spec.limit_bytes = GIB;
    fixture->spec.argv = argv;
    fixture->spec.argc = 1;
    bh_run_init(&fixture->run);
    memcpy(fixture->run.id, "0123456789abcdefghij", sizeof fixture->run.id);
    fixture->run.spec = &fixture->spec;
    fixture->root = bh_fake_add(&fixture->fake, ROOT_PID, getpid());
    fixture->root->group = ROOT_PID;
    fixture->root->anon_bytes = 100 * MIB;
    fixture->root->term_after_ns = 10 * BH_NS_PER_MS;
    fixture->fake.root = ROOT_PID;
    return fixture;
}

static inline void fixture_init_loop(struct fixture *fixture)
{
    struct bh_diag diag = {0};
    assert_int_equal(bh_job_spec_resolve(&fixture->spec, &diag), BH_OK);
    bh_loop_init(fixture->loop, &fixture->os, &fixture->run);
    fixture->loop->subreaper = true;
    fixture->loop->config.first_request_id = 7;
    fixture->loop->notes.tap = keep_record;
    fixture->loop->notes.tap_context = fixture;
}

static inline void fixture_launch(struct fixture *fixture)
{
    fixture_init_loop(fixture);
    assert_int_equal(bh_loop_launched(fixture->loop, ROOT_PID, NULL), BH_OK);
}

/* Starts a real program on the platform that the fixture was given; its pid, or < 0. */
static inline int fixture_launch_real(struct fixture *fixture, const char *const *argv,
                                      const char *const *environment)
{
    struct bh_launch launch = {.argv = argv,
                               .environment = environment,
                               .stdin_fd = -1,
                               .stdout_fd = -1,
                               .stderr_fd = -1,
                               .keep_fd = -1,
                               .terminal_fd = -1,
                               .oom_score_adj = 1000};
    int pid = 0;
    int result = fixture->os.launch(fixture->os.self, &launch, &pid, NULL);
    return result < 0 ? result : pid;
}

static inline void fixture_free(struct fixture *fixture)
{
    bh_peers_done(&fixture->loop->peers);
    bh_checkpoint_done(&fixture->loop->checkpoint);
    free(fixture->loop);
    free(fixture->records);
    free(fixture);
}

static inline uint64_t fixture_time(const struct fixture *fixture)
{
    return fixture->fake.clock.ns - 1000 * BH_NS_PER_S;
}

/* Turns until the run is over (true) or this much of the fake's time has passed. */
static inline bool fixture_run(struct fixture *fixture, uint64_t for_ns)
{
    uint64_t end = fixture->fake.clock.ns + for_ns;
    while (fixture->fake.clock.ns < end) {
        if (!bh_loop_turn(fixture->loop))
            return true;
    }
    return false;
}

static inline const struct bh_record *fixture_find(const struct fixture *fixture,
                                                   enum bh_record_kind kind, size_t nth)
{
    for (size_t i = 0; i < fixture->record_count; i++) {
        if (fixture->records[i].kind == kind && nth-- == 0)
            return &fixture->records[i];
    }
    return NULL;
}

/* The same, for a record that must be there. */
static inline const struct bh_record *fixture_get(const struct fixture *fixture,
                                                  enum bh_record_kind kind, size_t nth)
{
    const struct bh_record *record = fixture_find(fixture, kind, nth);
    if (!record) {
        fail_msg("there is no record %zu of kind %d", nth, (int)kind);
        abort(); /* for the compiler: cmocka's jump is invisible to it */
    }
    return record;
}

static inline size_t fixture_count(const struct fixture *fixture, enum bh_record_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < fixture->record_count; i++)
        count += fixture->records[i].kind == kind;
    return count;
}

static inline void fixture_expect_signal(const struct fixture *fixture, size_t nth, int number,
                                         const char *reason)
{
    const struct bh_record *record = fixture_get(fixture, BH_RECORD_SIGNAL, nth);
    assert_int_equal(record->signal.signal, number);
    assert_string_equal(record->signal.reason, reason);
}

static inline const struct bh_record_outcome *fixture_outcome(const struct fixture *fixture)
{
    return &fixture_get(fixture, BH_RECORD_OUTCOME, 0)->outcome;
}

#endif
