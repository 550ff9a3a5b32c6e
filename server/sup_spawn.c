/* supervise.h: helper processes, `bulkhead-supervise start RUNDIR` and `… adopt RUNDIR`. Both end
 * soon; what start says on stdout is its verdict (api/verdict_json.h), their stderr is ours. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/verdict_json.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "server/sup_spawn.h"
#include "server/supervise.h"

#define MAX_OUTPUT 4096

struct helper {
    uv_process_t process;
    struct bh_job *job;
    int output_fd; /* readable end of its stdout */
    bh_helper_done done;
    void *user;
};

static void on_closed(uv_handle_t *handle)
{
    struct helper *helper = handle->data;
    if (helper->output_fd >= 0)
        (void)close(helper->output_fd);
    free(helper);
}

static void on_helper_exit(uv_process_t *process, int64_t status, int signal)
{
    struct helper *helper = process->data;
    char text[MAX_OUTPUT + 1];
    size_t used = 0;
    /* everything it wrote is in the pipe: it is gone. Its grandchildren may hold the pipe open, so
     * what is there is read, and the end is not waited for. */
    while (used < MAX_OUTPUT) {
        ssize_t n = read(helper->output_fd, text + used, MAX_OUTPUT - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    text[used] = '\0';
    struct bh_job *job = helper->job;
    job->busy = false;
    helper->done(helper->user, job, signal ? 128 + signal : (int)status, text);
    uv_close((uv_handle_t *)process, on_closed);
}

static int make_pipe(int ret_fds[2])
{
    if (pipe2(ret_fds, O_CLOEXEC) < 0)
        return bh_err_from_errno(errno);
    return bh_io_set_nonblocking(ret_fds[0]);
}

int bh_helper_run(struct bh_job *job, const char *verb, bh_helper_done done, void *user,
                  struct bh_diag *diag)
{
    struct bh_app *app = job->app;
    char path[PATH_MAX + 64];
    char verb_copy[16];
    bool quiet = strcmp(verb, "start") == 0; /* its verdict says the same */
    int fds[2] = {-1, -1};
    struct helper *helper = calloc(1, sizeof *helper);
    if (!helper)
        return BH_E_NOMEM;
    int result = make_pipe(fds);
    if (result < 0) {
        free(helper);
        return bh_err_set(diag, result, NULL, "no pipe for the supervisor");
    }
    bh_app_run_path(app, job->id, path, sizeof path);
    (void)snprintf(verb_copy, sizeof verb_copy, "%s", verb);
    char *arguments[] = {app->supervisor, verb_copy, path, NULL};
    uv_stdio_container_t streams[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = fds[1]},
        {.flags = quiet ? UV_IGNORE : UV_INHERIT_FD, .data.fd = STDERR_FILENO},
    };
    uv_process_options_t options = {.exit_cb = on_helper_exit,
                                    .file = app->supervisor,
                                    .args = arguments,
                                    .stdio = streams,
                                    .stdio_count = 3};
    *helper = (struct helper){.job = job, .output_fd = fds[0], .done = done, .user = user};
    helper->process.data = helper;
    int error = uv_spawn(&app->loop, &helper->process, &options);
    (void)close(fds[1]);
    if (error < 0) {
        uv_close((uv_handle_t *)&helper->process, on_closed);
        return bh_err_set(diag, BH_E_SUPERVISOR_START, NULL,
                          "The supervisor program cannot be run (%s). Install bulkhead-supervise "
                          "beside bulkheadd, or say where it is with --supervisor.",
                          uv_strerror(error));
    }
    job->busy = true;
    return BH_OK;
}

int bh_helper_verdict(int status, const char *text, const struct bh_job_spec *spec,
                      struct bh_diag *diag)
{
    if (status == 0)
        return BH_OK;
    int error = bh_verdict_read(text, strlen(text), diag);
    if (error < 0)
        return error;
    char program[120];
    const char *name = spec->argc ? spec->argv[0] : "";
    (void)bh_text_escape(name, strlen(name), program, sizeof program);
    switch (status) {
    case 127:
        return bh_err_set(diag, BH_E_LAUNCH_NOT_FOUND, NULL,
                          "“%s” was not found%s. Correct command[0] and send the request again.",
                          program, strchr(name, '/') ? "" : " in PATH");
    case 126:
        return bh_err_set(diag, BH_E_LAUNCH_NOT_EXECUTABLE, NULL,
                          "“%s” cannot be executed. Correct command[0] and send the request again.",
                          program);
    case 64:
        return bh_err_set(diag, BH_E_INVALID_CONFIG, NULL,
                          "The supervisor refused the configuration.");
    default:
        return bh_err_set(diag, BH_E_SUPERVISOR_START, NULL,
                          "The supervisor ended with status %d before the program ran. Try again.",
                          status);
    }
}
