/* Launching: checks that need the machine, run directory, row, supervisor, answer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/job_json.h"
#include "api/reply.h"
#include "api/view_json.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/scoped.h"
#include "core/base/text.h"
#include "core/platform/platform.h"
#include "core/wire/spec_file.h"
#include "server/backend.h"
#include "server/feed.h"
#include "server/idempotency.h"
#include "server/program_check.h"
#include "server/supervise.h"

/* One launch on its way; freed when the call is answered. */
struct launch {
    uv_work_t work;
    struct bh_app *app;
    struct bh_call *call;
    struct bh_job *job;
    struct bh_bytes spec; /* encoded */
    int dirfd;
    int result;
    struct bh_diag diag;
    char *key; /* Idempotency-Key, owned; NULL = none */
};

static void free_launch(struct launch *launch)
{
    bh_bytes_done(&launch->spec);
    free(launch->key);
    free(launch);
}

/* Keeps the answer under the key, when there is one. Call with the reply filled. */
static void settle(struct launch *launch, int status)
{
    if (launch->key)
        bh_idempotency_keep(launch->app, launch->key, status, &launch->call->reply.body);
}

/* ---- checks --------------------------------------------------------------------------------- */

static int check_cwd(const struct bh_job_spec *spec, struct bh_problem *problem)
{
    struct stat st;
    if (!spec->cwd)
        return BH_OK;
    if (stat(spec->cwd, &st) == 0 && S_ISDIR(st.st_mode) && access(spec->cwd, R_OK | X_OK) == 0)
        return BH_OK;
    bh_problem_set(problem, BH_E_LAUNCH_CWD,
                   "The working directory is missing or cannot be read. Correct cwd and send the "
                   "request again.");
    bh_problem_add(problem, BH_E_LAUNCH_CWD, "/cwd", "Not a directory that this user can read.");
    return problem->error;
}

static int check_host(const struct bh_job_spec *spec, struct bh_problem *problem)
{
    struct bh_platform_memory memory;
    char limit[24];
    char total[24];
    if (!spec->limit_bytes || spec->force || spec->external ||
        bh_platform_host_memory(&memory) < 0 || spec->limit_bytes <= memory.total_bytes)
        return BH_OK;
    bh_problem_set(problem, BH_E_LIMIT_EXCEEDS_HOST,
                   "%s can never fit into %s. Lower the limit, or send \"force\": true.",
                   bh_text_format_bytes(spec->limit_bytes, limit, sizeof limit),
                   bh_text_format_bytes(memory.total_bytes, total, sizeof total));
    bh_problem_add(problem, BH_E_LIMIT_EXCEEDS_HOST, "/limit", "%llu bytes; this machine has %llu.",
                   (unsigned long long)spec->limit_bytes, (unsigned long long)memory.total_bytes);
    return problem->error;
}

static void warn_of_program(struct bh_job *job)
{
    switch (bh_program_check(job->spec)) {
    case BH_PROGRAM_FINE:
        break;
    case BH_PROGRAM_STATIC:
        bh_jobs_warn(job, "The program is linked statically, so the recorder cannot be loaded into "
                          "it. What it starts is still recorded.");
        break;
    case BH_PROGRAM_SETUID:
        bh_jobs_warn(job,
                     "The program is setuid or setgid, so the recorder is not loaded into it.");
        break;
    }
}

static void warn(struct bh_job *job)
{
    struct bh_app *app = job->app;
    struct bh_platform_memory memory;
    uint64_t committed = 0;
    char text[24];
    for (struct bh_job *at = bh_jobs_first(app->jobs); at; at = at->next)
        committed += at->over ? 0 : at->spec->limit_bytes;
    if (job->spec->limit_bytes && bh_platform_host_memory(&memory) >= 0 &&
        committed > memory.total_bytes)
        bh_jobs_warn(job,
                     "The limits of all live jobs together are %s, more than this machine's "
                     "memory.",
                     bh_text_format_bytes(committed, text, sizeof text));
    if (job->spec->stop_with_owner && job->spec->mode == BH_MODE_OBSERVE)
        bh_jobs_warn(job,
                     "The job is only observed, so it is not stopped when its owner ends. Give a "
                     "limit to have that.");
    if (job->spec->record && !job->spec->recorder_path)
        bh_jobs_warn(job,
                     "Recording was asked for, but the recorder library is not installed here.");
    else if (job->spec->record)
        warn_of_program(job);
}

/* The name is taken: true after having answered. */
static bool answer_existing(struct bh_app *app, struct bh_call *call,
                            const struct bh_launch_request *request)
{
    const char *name = request->spec.name;
    struct bh_job *other = name ? bh_jobs_find_name(app->jobs, name) : NULL;
    struct bh_problem problem = {0};
    if (!other)
        return false;
    if (request->return_existing) {
        bh_reply_header(call, "Location", "/v1/jobs/%s", other->id);
        bh_backend_answer_job(app, call, 200, other->id);
        return true;
    }
    bh_problem_set(
        &problem, BH_E_NAME_TAKEN,
        "“%s” is %s. Choose another name, or send \"if_exists\":\"return\" to get that job.", name,
        bh_job_state_text((int)other->state));
    problem.job_id = other->id;
    problem.job_url = true;
    bh_reply_problem(call, &problem);
    return true;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* On the pool: the run directory with a durable spec.bin. */
static void on_make(uv_work_t *work)
{
    struct launch *launch = work->data;
    BH_SCOPED_FD int fd = -1;
    launch->result =
        bh_io_make_dir(launch->app->jobs_fd, launch->job->id, false, &launch->dirfd, &launch->diag);
    if (launch->result >= 0)
        launch->result =
            bh_io_create(launch->dirfd, BH_SPEC_FILE_NAME, O_WRONLY, &fd, &launch->diag);
    if (launch->result >= 0)
        launch->result = bh_io_write_full(fd, launch->spec.data, launch->spec.length);
    if (launch->result >= 0 &&
        (fsync(fd) < 0 || fsync(launch->dirfd) < 0 || fsync(launch->app->jobs_fd) < 0))
        launch->result = bh_err_sys(&launch->diag, errno, "cannot sync the job's spec");
}

static void answer_launched(struct launch *launch)
{
    struct bh_call *call = launch->call;
    struct bh_job_view view;
    bh_jobs_view(launch->job, &view);
    bh_view_job_document(&view, &call->reply.body);
    settle(launch, 201);
    bh_reply_header(call, "Location", "/v1/jobs/%s", launch->job->id);
    bh_reply_body(call, 201, BH_TYPE_JSON);
}

static const char *pointer_of(int error)
{
    if (error == BH_E_LAUNCH_NOT_FOUND || error == BH_E_LAUNCH_NOT_EXECUTABLE)
        return "/command/0";
    if (error == BH_E_LAUNCH_TOO_LONG)
        return "/command";
    return error == BH_E_LAUNCH_CWD ? "/cwd" : NULL;
}

/* Ends the job as failed_to_start (stored) and answers. */
static void answer_failed(struct launch *launch, int error, const struct bh_diag *diag)
{
    struct bh_call *call = launch->call;
    struct bh_problem problem = {.error = error};
    char id[BH_JOB_ID_SIZE];
    memcpy(id, launch->job->id, sizeof id);
    (void)snprintf(problem.detail, sizeof problem.detail, "%s", diag->detail);
    if (pointer_of(error))
        bh_problem_add(&problem, error, pointer_of(error), "%s", diag->detail);
    problem.job_id = id;
    bh_jobs_fail(launch->job, error, diag->detail);
    if (launch->key) {
        bh_problem_write(&problem, call->path, &call->reply.body);
        settle(launch, bh_err_http(bh_problem_public_error(error)));
    }
    bh_reply_problem(call, &problem);
}

static void on_started(void *user, struct bh_job *job, int result, const struct bh_diag *diag)
{
    struct launch *launch = user;
    if (result < 0) {
        answer_failed(launch, result, diag);
    } else {
        answer_launched(launch);
        bh_jobs_changed(job);
        bh_feed_want(job->app->feed, job);
    }
    free_launch(launch);
}

/* Nothing was started and nothing stays: as if the request had never come. */
static void abandon(struct launch *launch)
{
    struct bh_app *app = launch->app;
    struct bh_diag why = launch->diag;
    int error = launch->result;
    if (launch->key)
        bh_idempotency_drop(app, launch->key);
    (void)bh_io_remove_tree(app->jobs_fd, launch->job->id, NULL);
    bh_log(BH_LOG_ERROR, "a job cannot be launched: %s", why.detail);
    bh_jobs_remove(launch->job);
    bh_reply_error(launch->call, error, NULL);
    free_launch(launch);
}

static void on_made(uv_work_t *work, int status)
{
    struct launch *launch = work->data;
    struct bh_job *job = launch->job;
    (void)status;
    job->busy = false;
    job->dirfd = launch->dirfd;
    if (launch->result >= 0)
        launch->result = bh_store_job_insert(launch->app->store, job->spec, &launch->diag);
    if (launch->result < 0) {
        abandon(launch);
        return;
    }
    if (job->spec->external) {
        job->state = BH_JOB_RUNNING;
        job->started_at = bh_clock_wall();
        job->anchor = bh_clock_anchor();
        (void)bh_store_job_set_state(launch->app->store, job->id, BH_JOB_RUNNING, NULL);
        on_started(launch, job, BH_OK, NULL);
        return;
    }
    bh_supervise_start(job, on_started, launch);
}

/* Checks that concern this machine at this moment, completes what only the server knows and encodes
 * the spec. */
static int prepare(struct launch *launch, const struct bh_job_spec *wanted, struct bh_wall now,
                   const char *id, struct bh_problem *problem)
{
    struct bh_app *app = launch->app;
    struct bh_job_spec spec = *wanted;
    if (check_cwd(wanted, problem) < 0 || check_host(wanted, problem) < 0)
        return problem->error;
    spec.created_at = now;
    memcpy(spec.id, id, sizeof spec.id);
    spec.recorder_path = spec.record && app->recorder[0] ? app->recorder : NULL;
    if (spec.owner_pid && bh_platform_start_token(spec.owner_pid, &spec.owner_start_token) < 0) {
        bh_problem_add(problem, BH_E_INVALID_VALUE, "/owner/pid", "There is no process %d.",
                       spec.owner_pid);
        return problem->error;
    }
    problem->error = bh_spec_file_encode(&spec, &launch->spec, &launch->diag);
    return problem->error;
}

/* Idempotency key: true when the call goes on. */
static bool reserve_key(struct launch *launch, const struct bh_launch_request *request,
                        const char *id)
{
    if (!request->idempotency_key)
        return true;
    if (!bh_idempotency_begin(launch->app, launch->call, request->idempotency_key, id))
        return false;
    launch->key = strdup(request->idempotency_key);
    return true;
}

/* Puts the job into the registry and its directory on disk. */
static void enlist(struct launch *launch)
{
    struct bh_app *app = launch->app;
    struct bh_job_spec *spec = NULL;
    int result = bh_spec_file_decode(launch->spec.data, launch->spec.length, &spec, &launch->diag);
    if (result >= 0)
        result = bh_jobs_add(app->jobs, spec, -1, &launch->job);
    if (result < 0) {
        bh_spec_file_free(spec);
        if (launch->key)
            bh_idempotency_drop(app, launch->key);
        bh_reply_error(launch->call, result, NULL);
        free_launch(launch);
        return;
    }
    warn(launch->job);
    launch->job->busy = true;
    if (uv_queue_work(&app->loop, &launch->work, on_make, on_made) < 0) {
        launch->job->busy = false;
        launch->result = BH_E_NOMEM;
        abandon(launch);
    }
}

/* Nothing was made for this request: its key is free again. */
static void drop(struct launch *launch)
{
    if (launch->key)
        bh_idempotency_drop(launch->app, launch->key);
    free_launch(launch);
}

static void begin_launch(struct bh_app *app, struct bh_call *call,
                         const struct bh_launch_request *request)
{
    struct bh_problem problem = {0};
    char id[BH_JOB_ID_SIZE];
    struct bh_wall now = bh_clock_wall();
    if (app->stopping || !app->ready) {
        bh_reply_refuse(call, BH_E_BUSY,
                        app->stopping ? "The server is going down."
                                      : "The server is still starting.");
        return;
    }
    struct launch *launch = calloc(1, sizeof *launch);
    int result = launch ? bh_random_job_id(now, id) : BH_E_NOMEM;
    if (result < 0) {
        free(launch);
        bh_reply_error(call, result, NULL);
        return;
    }
    *launch = (struct launch){.app = app, .call = call, .dirfd = -1};
    launch->work.data = launch;
    /* the key first: a request that is repeated gets its answer whatever has changed since, and
     * finds its own job under the name */
    if (!reserve_key(launch, request, id)) {
        free_launch(launch);
    } else if (prepare(launch, &request->spec, now, id, &problem) < 0) {
        bh_reply_problem(call, &problem);
        drop(launch);
    } else if (answer_existing(app, call, request)) {
        drop(launch);
    } else {
        enlist(launch);
    }
}

static void op_launch(void *self, struct bh_call *call, const struct bh_launch_request *request)
{
    begin_launch(self, call, request);
}

/* ---- relaunch ------------------------------------------------------------------------------- */

static void op_relaunch(void *self, struct bh_call *call)
{
    struct bh_app *app = self;
    struct bh_found found;
    struct bh_problem problem = {0};
    struct bh_launch_request request;
    struct bh_bytes base = {0};
    if (!bh_backend_need(app, call, &found))
        return;
    if (bh_found_spec(&found)->external) {
        bh_reply_refuse(call, BH_E_WRONG_STATE,
                        "A job that ran elsewhere cannot be launched here.");
        bh_found_done(&found);
        return;
    }
    /* the run directory has the spec with its environment; the database has it blanked */
    struct bh_job_spec *spec = NULL;
    struct bh_bytes bytes = {0};
    BH_SCOPED_FD int dirfd = -1;
    int result = bh_io_open_dir(app->jobs_fd, bh_found_id(&found), &dirfd, NULL);
    if (result >= 0)
        result = bh_io_read_file(dirfd, BH_SPEC_FILE_NAME, BH_SPEC_MAX_BYTES + 4096, &bytes, NULL);
    if (result >= 0)
        result = bh_spec_file_decode(bytes.data, bytes.length, &spec, NULL);
    if (result >= 0) {
        bh_job_json_write(spec, &base);
        result =
            bh_job_json_read_over(&base, call->body.data, call->body.length, &request, &problem);
    } else {
        bh_problem_set(&problem, BH_E_WRONG_STATE,
                       "The job's spec is not on disk any more. Launch it "
                       "with POST /v1/jobs.");
    }
    if (result >= 0) {
        request.spec.relaunch_of = spec->id;
        begin_launch(app, call, &request);
        bh_launch_done(&request);
    } else {
        bh_reply_problem(call, &problem);
    }
    bh_spec_file_free(spec);
    bh_bytes_done(&bytes);
    bh_bytes_done(&base);
    bh_found_done(&found);
}

void bh_backend_init_launch(struct bh_app *app)
{
    app->backend.launch = op_launch;
    app->backend.relaunch = op_relaunch;
}
