#include "core/super/adopt.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/platform/platform.h"
#include "core/super/finish.h"
#include "core/wire/spec_file.h"

#define EXIT_LOCKED  75
#define EXIT_NO_RUN  64
#define EXIT_STORAGE 74

struct adoption {
    struct bh_run run;
    struct bh_drain *drain;
    struct bh_queue_member members[BH_QUEUE_MEMBERS];
    size_t member_count;
    bool reboot;
    bool outcome_known; /* the decider had stored how it ended */
    struct bh_store store;
};

/* The anchor of the run's first moment: of the queue, else of the journal that it began. */
static int find_anchor(struct adoption *adoption, struct bh_diag *diag)
{
    struct bh_run *run = &adoption->run;
    if (run->queue) {
        run->anchor = bh_queue_anchor(run->queue);
        return BH_OK;
    }
    BH_SCOPED_FD int fd = -1;
    struct bh_journal_reader *reader = NULL;
    int result = bh_io_open(run->run_fd, BH_JOURNAL_FILE_NAME, O_RDONLY, &fd, diag);
    if (result == BH_OK)
        result = bh_journal_reader_new(fd, &reader, diag);
    if (result < 0)
        return result;
    run->anchor = bh_journal_reader_header(reader)->anchor;
    bh_journal_reader_free(reader);
    return BH_OK;
}

static int open_run(struct adoption *adoption, const char *path, struct bh_diag *diag)
{
    struct bh_run *run = &adoption->run;
    char boot_id[40] = "";
    bh_run_init(run);
    int result = bh_rundir_open(path, run, diag);
    if (result == BH_OK)
        result = bh_rundir_find_runtime(run, diag);
    if (result == BH_OK)
        result = bh_platform_boot_id(boot_id, sizeof boot_id);
    if (result < 0)
        return result;
    adoption->reboot = run->boot_id[0] != '\0' && strcmp(run->boot_id, boot_id) != 0;
    return find_anchor(adoption, diag);
}

/* Members from the queue; without one, the root that the journal names. */
static void find_members(struct adoption *adoption)
{
    struct bh_run *run = &adoption->run;
    if (run->queue) {
        adoption->member_count = bh_queue_members(run->queue, adoption->members, BH_QUEUE_MEMBERS);
        return;
    }
    struct bh_report *report = NULL;
    if (bh_finish_fold(run->run_fd, &report, NULL) < 0)
        return;
    if (report->has_launched && report->launched.root_pid > 1) {
        adoption->members[0] = (struct bh_queue_member){
            .start_token = report->launched.root_start_token,
            .pid = (uint32_t)report->launched.root_pid,
        };
        adoption->member_count = 1;
    }
    bh_report_free(report);
}

static void open_drain(struct adoption *adoption)
{
    struct bh_run *run = &adoption->run;
    int fd = -1;
    if (!run->spec->record || run->rings_fd < 0)
        return;
    int result = bh_io_create(run->run_fd, BH_RUN_EVLOG_NAME, O_RDWR | O_APPEND, &fd, NULL);
    if (result == BH_E_EXISTS)
        result = bh_io_open(run->run_fd, BH_RUN_EVLOG_NAME, O_RDWR | O_APPEND, &fd, NULL);
    if (result == BH_OK)
        result = bh_drain_new(run->rings_fd, fd, run->id, run->anchor, run->spec->trace_max_bytes,
                              &adoption->drain, NULL);
    if (result < 0 && fd >= 0)
        (void)close(fd);
}

static void last_status(struct adoption *adoption, bool report_lost)
{
    struct bh_status status;
    struct bh_bytes bytes = {0};
    struct bh_run *run = &adoption->run;
    bool known = run->queue && bh_queue_status(run->queue, &status);
    if (!known && bh_io_read_file(run->run_fd, BH_STATUS_FILE_NAME, BH_STATUS_FILE_BYTES, &bytes,
                                  NULL) == BH_OK)
        known = bh_status_file_decode(bytes.data, bytes.length, &status) == BH_OK;
    bh_bytes_done(&bytes);
    if (!known)
        return;
    status.state = BH_JOB_FINISHED;
    if (adoption->store.has_empty)
        status.members = 0;
    if (status.outcome == BH_OUTCOME_NONE) {
        status.outcome = BH_OUTCOME_SUPERVISOR_LOST;
        status.cause = adoption->reboot ? BH_CAUSE_HOST_REBOOT : BH_CAUSE_SUPERVISOR_LOST;
    }
    if (report_lost)
        status.outcome = BH_OUTCOME_PARTIAL_ARTIFACT_FAILURE;
    bh_store_status(&adoption->store, &status, true);
}

static int finish(struct adoption *adoption, struct bh_diag *diag)
{
    struct bh_run *run = &adoption->run;
    struct bh_reclaim_facts facts;
    int result = bh_store_open(&adoption->store, run, run->queue, diag);
    if (result < 0)
        return result;
    adoption->store.other_boot = adoption->reboot;
    (void)bh_store_take(&adoption->store);
    adoption->outcome_known = adoption->store.has_outcome;
    find_members(adoption);
    bh_finish_lost(&adoption->store, run->spec, adoption->members, adoption->member_count,
                   adoption->reboot);
    open_drain(adoption);
    result = bh_finish_run(&adoption->store, adoption->drain, &facts, diag);
    last_status(adoption, result < 0);
    bh_drain_free(adoption->drain);
    bh_store_close(&adoption->store);
    return result;
}

static int exit_status(int result)
{
    switch (result) {
    case BH_OK:
        return 0;
    case BH_E_BUSY:
        return EXIT_LOCKED;
    case BH_E_NOT_FOUND:
    case BH_E_UNSAFE_PATH:
    case BH_E_TRUNCATED:
    case BH_E_MALFORMED:
        return EXIT_NO_RUN;
    default:
        return EXIT_STORAGE;
    }
}

static const char *what_was_done(const struct adoption *adoption)
{
    if (adoption->outcome_known)
        return "the report was missing; it is in place";
    return adoption->reboot ? "the machine had restarted; the report is in place"
                            : "the supervisor was lost; the report is in place";
}

static void say(const char *what)
{
    (void)fprintf(stderr, "bulkhead-supervise: adopt: %s\n", what);
}

int bh_adopt_main(const char *path)
{
    struct bh_diag diag = {0};
    struct adoption *adoption = calloc(1, sizeof *adoption);
    if (!adoption)
        return EXIT_STORAGE;
    int result = open_run(adoption, path, &diag);
    if (result < 0) {
        say(diag.detail);
    } else if (faccessat(adoption->run.run_fd, BH_RUN_REPORT_NAME, F_OK, AT_SYMLINK_NOFOLLOW) ==
               0) {
        say("the report is in place already");
        bh_rundir_remove_runtime(&adoption->run);
    } else {
        result = finish(adoption, &diag);
        /* after a storage failure the next adopt may do better with what is still there */
        if (result == BH_OK || result == BH_E_REPORT_SUPPRESSED)
            bh_rundir_remove_runtime(&adoption->run);
        say(result < 0 ? diag.detail : what_was_done(adoption));
    }
    int status = exit_status(result);
    struct bh_job_spec *spec = adoption->run.spec;
    bh_run_done(&adoption->run);
    bh_spec_file_free(spec);
    free(adoption);
    return status;
}
