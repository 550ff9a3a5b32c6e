#include "core/super/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/json_out.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/super/finish.h"
#include "core/super/supervise.h"
#include "core/super/top_stacks.h"
#include "core/super/transitions.h"
#include "core/wire/spec_file.h"

extern char **environ;

/* "bulkhead-supervise: code: field: sentence" is what people and the server read. */
static int complain(int error, const struct bh_diag *diag)
{
    char line[640];
    const char *detail = diag->detail[0] ? diag->detail : bh_err_title(error);
    int n = snprintf(line, sizeof line, "bulkhead-supervise: %s: %s%s%s\n", bh_err_code(error),
                     diag->field, diag->field[0] ? ": " : "", detail);
    if (n > 0)
        (void)bh_io_write_full(STDERR_FILENO, line,
                               (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    return bh_err_exit(error);
}

/* ---- run, observe -----------------------------------------------------------------------------
 */

/* BULKHEAD_RECORD_LIB, else where the installation or the build tree has it beside us. */
static const char *find_recorder(char *buffer, size_t size)
{
    static const char *const places[] = {"../lib/bulkhead/libbulkhead-record.so",
                                         "../lib/libbulkhead-record.so"};
    const char *given = getenv("BULKHEAD_RECORD_LIB");
    char own[PATH_MAX];
    if (given && given[0] == '/' && access(given, R_OK) == 0)
        return given;
    if (bh_platform_own_path(own, sizeof own) < 0)
        return NULL;
    char *slash = strrchr(own, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char path[PATH_MAX + 64];
        (void)snprintf(path, sizeof path, "%s/%s", own, places[i]);
        if (access(path, R_OK) == 0 && strlen(path) < size) {
            memcpy(buffer, path, strlen(path) + 1);
            return buffer;
        }
    }
    return NULL;
}

static void find_recorder_for(struct bh_job_spec *spec)
{
    static char path[PATH_MAX];
    if (!spec->record)
        return;
    spec->recorder_path = find_recorder(path, sizeof path);
    if (!spec->recorder_path)
        bh_log(BH_LOG_WARNING, "the recorder's library is not beside this program (see "
                               "BULKHEAD_RECORD_LIB), continuing without recorder");
}

/* Kept so that `adopt` can finish this run if all of us die. */
static int write_spec(const struct bh_run *run, struct bh_diag *diag)
{
    struct bh_bytes bytes = {0};
    int result = bh_spec_file_encode(run->spec, &bytes, diag);
    if (result == BH_OK)
        result =
            bh_io_replace(run->run_fd, BH_SPEC_FILE_NAME, bytes.data, bytes.length, false, diag);
    bh_bytes_done(&bytes);
    return result;
}

/* Before launch: a report that cannot be written is bad input, not a lost report. */
static int open_report(const char *path, int *ret_fd, struct bh_diag *diag)
{
    *ret_fd = -1;
    if (!path)
        return BH_OK;
    /* without waiting for a reader, should it be a pipe */
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (fd < 0)
        return bh_err_set(diag, BH_E_INVALID_VALUE, "--report", "it cannot be written: %s",
                          strerror(errno));
    int flags = fcntl(fd, F_GETFL);
    (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    *ret_fd = fd;
    return BH_OK;
}

static int copy_report(const struct bh_run *run, int fd)
{
    struct bh_bytes bytes = {0};
    if (fd < 0)
        return BH_OK;
    int result = bh_io_read_file(run->run_fd, BH_RUN_REPORT_NAME, 64u << 20, &bytes, NULL);
    if (result == BH_OK && ftruncate(fd, 0) < 0 && errno != EINVAL)
        result = bh_err_from_errno(errno);
    if (result == BH_OK)
        result = bh_io_write_full(fd, bytes.data, bytes.length);
    bh_bytes_done(&bytes);
    return result;
}

static int prepare_run(struct bh_options *options, struct bh_run *run, struct bh_diag *diag)
{
    bh_run_init(run);
    run->foreground = true;
    run->spec = &options->spec;
    options->spec.created_at = bh_clock_wall();
    int result = bh_random_job_id(options->spec.created_at, options->spec.id);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "the system gives no random numbers");
    memcpy(run->id, options->spec.id, sizeof run->id);
    find_recorder_for(&options->spec);
    result = bh_rundir_create(options->run_dir, run, diag);
    if (result == BH_OK)
        result = bh_rundir_make_runtime(run, diag);
    if (result == BH_OK)
        result = write_spec(run, diag);
    return result;
}

static void say_end(const struct bh_options *options, const struct bh_run *run,
                    const struct bh_supervise_end *end)
{
    static const char not_kept[] = "The trace is not kept; --run-dir DIR keeps it.\n";
    char text[640], line[720];
    struct bh_diag diag = {0};
    if (options->quiet)
        return;
    if (end->artifact_error)
        bh_log(BH_LOG_ERROR, "journal or report were lost (%s); the job itself was supervised",
               bh_err_code(end->artifact_error));
    if (bh_finish_sentence(run->run_fd, text, sizeof text, &diag) < 0)
        (void)snprintf(text, sizeof text, "%s (%s)", bh_outcome_text((int)end->outcome.kind),
                       bh_cause_text((int)end->outcome.cause));
    int n = snprintf(line, sizeof line, "bulkhead: %s\n", text);
    if (n > 0)
        (void)bh_io_write_full(STDERR_FILENO, line, (size_t)n);
    if (!options->spec.record || end->artifact_error)
        return;
    /* nothing recorded: the report says why */
    if (bh_top_stacks_print(run, STDERR_FILENO) == BH_OK && run->temporary)
        (void)bh_io_write_full(STDERR_FILENO, not_kept, sizeof not_kept - 1);
}

struct launch_failure {
    int result;
    struct bh_diag diag;
};

static void keep_verdict(void *context, int result, const struct bh_diag *diag)
{
    struct launch_failure *failure = context;
    failure->result = result;
    failure->diag = *diag;
}

static int supervise_foreground(struct bh_options *options, struct bh_run *run, int report_fd,
                                struct bh_diag *diag)
{
    struct launch_failure failure = {0};
    struct bh_supervise supervise = {.run = run,
                                     .os = bh_platform_host(),
                                     .own_environment = environ,
                                     .tap = options->json ? bh_transitions_print : NULL,
                                     .verdict = keep_verdict,
                                     .verdict_context = &failure};
    struct bh_supervise_end end;
    int result = bh_supervise_run(&supervise, &end, diag);
    if (result < 0)
        return complain(result, diag);
    if (failure.result < 0)
        (void)complain(failure.result, &failure.diag);
    if (copy_report(run, report_fd) < 0 && end.artifact_error == 0) {
        end.artifact_error = BH_E_IO;
        end.exit_code = 74;
    }
    if (failure.result == BH_OK || end.artifact_error)
        say_end(options, run, &end);
    if (!end.artifact_error || run->temporary)
        bh_rundir_remove_runtime(run);
    return end.exit_code;
}

int bh_boot_run(struct bh_options *options)
{
    struct bh_run run;
    struct bh_diag diag = {0};
    int report_fd = -1;
    if (!bh_platform_host())
        return complain(BH_E_UNSUPPORTED, &diag);
    int result = open_report(options->report, &report_fd, &diag);
    if (result < 0)
        return complain(result, &diag);
    result = prepare_run(options, &run, &diag);
    int status = result < 0 ? complain(result, &diag)
                            : supervise_foreground(options, &run, report_fd, &diag);
    if (result < 0 && run.run_fd >= 0)
        bh_rundir_remove_runtime(&run);
    bh_run_done(&run);
    if (report_fd >= 0)
        (void)close(report_fd);
    return status;
}

/* ---- start ------------------------------------------------------------------------------------
 */

struct verdict_message {
    int32_t result;
    struct bh_diag diag;
};

static void send_verdict(void *context, int result, const struct bh_diag *diag)
{
    struct bh_run *run = context;
    struct verdict_message message = {.result = result};
    if (result < 0)
        message.diag = *diag;
    (void)bh_io_write_full(run->ready_fd, &message, sizeof message);
    (void)close(run->ready_fd);
    run->ready_fd = -1;
}

static int supervise_background(struct bh_run *run, const char *path, struct bh_diag *diag)
{
    struct bh_supervise supervise = {.run = run,
                                     .os = bh_platform_host(),
                                     .own_environment = environ,
                                     .verdict = send_verdict,
                                     .verdict_context = run};
    struct bh_supervise_end end;
    int result = bh_rundir_open(path, run, diag);
    if (result == BH_OK)
        result = bh_rundir_refuse_used(run, diag);
    if (result == BH_OK)
        result = bh_rundir_make_runtime(run, diag);
    if (result == BH_OK)
        result = bh_supervise_run(&supervise, &end, diag);
    if (result < 0)
        return result;
    if (!end.artifact_error)
        bh_rundir_remove_runtime(run);
    return end.exit_code;
}

/* The supervisor proper: own session, streams on /dev/null, nobody's child. */
_Noreturn static void become_supervisor(const char *path, int ready_fd)
{
    struct bh_run run;
    struct bh_diag diag = {0};
    bh_run_init(&run);
    run.ready_fd = ready_fd;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null_fd >= 0; fd++)
        (void)dup2(null_fd, fd);
    int result = supervise_background(&run, path, &diag);
    if (result < 0 && run.ready_fd >= 0)
        send_verdict(&run, result, &diag);
    _exit(result < 0 ? bh_err_exit(result) : result);
}

static int print_verdict(const struct verdict_message *message)
{
    struct bh_bytes line = {0};
    struct bh_json json;
    bh_json_begin(&json, &line, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_string(&json, "code", bh_err_code(message->result));
    bh_json_string(&json, "detail", message->diag.detail);
    bh_json_string(&json, "field", message->diag.field);
    bh_json_end(&json);
    bh_json_finish(&json);
    bh_bytes_append_text(&line, "\n");
    if (!line.failed)
        (void)bh_io_write_full(STDOUT_FILENO, line.data, line.length);
    bh_bytes_done(&line);
    return complain(message->result, &message->diag);
}

int bh_boot_start(const char *path)
{
    int fds[2];
    struct verdict_message message = {0};
    if (!bh_platform_host())
        return complain(BH_E_UNSUPPORTED, &message.diag);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return complain(bh_err_sys(&message.diag, errno, "no pipe"), &message.diag);
    pid_t middle = fork();
    if (middle == 0) {
        (void)close(fds[0]);
        (void)setsid();
        pid_t last = fork();
        if (last == 0)
            become_supervisor(path, fds[1]);
        _exit(last < 0);
    }
    (void)close(fds[1]);
    while (middle > 0 && waitpid(middle, NULL, 0) < 0 && errno == EINTR)
        ;
    int result = middle < 0 ? BH_E_NOMEM : bh_io_read_full(fds[0], &message, sizeof message);
    (void)close(fds[0]);
    if (result < 0) {
        message.result = BH_E_SUPERVISOR_START;
        (void)bh_err_set(&message.diag, BH_E_SUPERVISOR_START, NULL,
                         "the supervisor ended before it launched anything");
    }
    return message.result < 0 ? print_verdict(&message) : 0;
}
