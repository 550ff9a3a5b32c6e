/* Commands to a job: stop, kill, checkpoint, signal, limits, recording, removal. */
#include <stdlib.h>
#include <string.h>

#include "api/reply.h"
#include "server/backend.h"
#include "server/feed.h"
#include "server/sup_link.h"

struct pending {
    struct bh_app *app;
    struct bh_call *call;
    int status; /* of the answer */
    bool stop;
    char id[BH_JOB_ID_SIZE];
};

static const char *verb(enum bh_command_kind kind)
{
    switch (kind) {
    case BH_COMMAND_STOP:
        return "stopped";
    case BH_COMMAND_KILL:
        return "killed";
    case BH_COMMAND_CHECKPOINT:
        return "asked for a checkpoint";
    case BH_COMMAND_SIGNAL:
        return "signalled";
    case BH_COMMAND_LIMITS:
        return "given other limits";
    case BH_COMMAND_RECORDING:
        return "recorded";
    }
    return "commanded";
}

static void on_reply(void *user, int result, const struct bh_frame *frame,
                     const struct bh_diag *diag)
{
    struct pending *pending = user;
    struct bh_found found;
    (void)frame;
    bool gone = result == BH_E_SUPERVISOR_LOST &&
                bh_backend_find(pending->app, pending->id, &found, NULL) >= 0;
    if (gone) {
        /* it ended while we asked: for a stop that is what was wanted */
        bh_found_done(&found);
        result = pending->status == 202 ? BH_OK : BH_E_WRONG_STATE;
    }
    struct bh_job *job = bh_jobs_find(pending->app->jobs, pending->id);
    if (result < 0 && pending->stop && job)
        job->stop_asked = false; /* it was not taken: the next one must be sent */
    if (result >= 0)
        bh_backend_answer_job(pending->app, pending->call, pending->status, pending->id);
    else
        bh_reply_error(pending->call, result, diag);
    free(pending);
}

static void refuse_state(struct bh_call *call, enum bh_command_kind kind, const char *why)
{
    bh_reply_refuse(call, BH_E_WRONG_STATE, "%s cannot be %s. Nothing was sent.", why, verb(kind));
}

static void send_command(struct bh_app *app, struct bh_call *call, struct bh_job *job,
                         const struct bh_command *command)
{
    struct pending *pending = calloc(1, sizeof *pending);
    if (!pending) {
        bh_reply_error(call, BH_E_NOMEM, NULL);
        return;
    }
    *pending = (struct pending){.app = app,
                                .call = call,
                                .status = command->kind == BH_COMMAND_LIMITS ? 200 : 202,
                                .stop = command->kind == BH_COMMAND_STOP};
    memcpy(pending->id, job->id, sizeof pending->id);
    bh_link_command(job->link, command, on_reply, pending);
}

static bool limits_ok(const struct bh_job *job, struct bh_call *call, struct bh_command *command)
{
    struct bh_job_view view;
    bh_jobs_view(job, &view);
    if (!view.limit_bytes) {
        bh_reply_refuse(call, BH_E_WRONG_STATE, "An observed job has no limits to change.");
        return false;
    }
    if (command->revision != view.limits_revision) {
        bh_reply_refuse(call, BH_E_PRECONDITION_FAILED,
                        "The limits are at revision %u now. Read the job and send it again.",
                        view.limits_revision);
        return false;
    }
    struct bh_job_spec spec;
    struct bh_diag diag = {0};
    bh_job_spec_init(&spec);
    static const char *const argv[] = {"true"};
    spec.argv = argv;
    spec.argc = 1;
    spec.mode = BH_MODE_ENFORCE;
    spec.limit_bytes = command->limit_bytes ? command->limit_bytes : view.limit_bytes;
    /* bands that are not given follow a new limit, and stay as they are under the old one */
    bool keep = command->limit_bytes == 0;
    spec.warning_bytes = command->warning_bytes ? command->warning_bytes
                         : keep                 ? view.warning_bytes
                                                : 0;
    spec.recovery_bytes = command->recovery_bytes ? command->recovery_bytes
                          : keep                  ? view.recovery_bytes
                                                  : 0;
    spec.emergency_bytes = command->emergency_bytes ? command->emergency_bytes
                           : keep                   ? view.emergency_bytes
                                                    : 0;
    int result = bh_job_spec_resolve(&spec, &diag);
    if (result < 0) {
        bh_reply_error(call, result, &diag);
        return false;
    }
    command->limit_bytes = spec.limit_bytes;
    command->warning_bytes = spec.warning_bytes;
    command->recovery_bytes = spec.recovery_bytes;
    command->emergency_bytes = spec.emergency_bytes;
    return true;
}

/* What only works when the launch asked for it. */
static bool was_asked_for(const struct bh_job_spec *spec, struct bh_call *call,
                          enum bh_command_kind kind)
{
    if (kind == BH_COMMAND_CHECKPOINT && spec->checkpoint_kind == BH_CHECKPOINT_NONE)
        bh_reply_refuse(call, BH_E_CHECKPOINT_UNAVAILABLE,
                        "The job was launched without checkpoint, so it cannot be asked for one.");
    else if (kind == BH_COMMAND_RECORDING && !spec->record)
        bh_reply_refuse(call, BH_E_WRONG_STATE,
                        "The job was launched without record, so nothing is recorded in it.");
    else
        return true;
    return false;
}

static void op_command(void *self, struct bh_call *call, const struct bh_command *wanted)
{
    struct bh_app *app = self;
    struct bh_command command = *wanted;
    struct bh_found found;
    if (!bh_backend_need(app, call, &found))
        return;
    struct bh_job *job = found.job;
    bh_found_done(&found);
    if (!job || job->ended || job->over) {
        refuse_state(call, command.kind, "A finished job");
        return;
    }
    if (job->spec->external) {
        refuse_state(call, command.kind, "A job that runs elsewhere");
        return;
    }
    if (command.kind == BH_COMMAND_STOP && job->stop_asked) {
        bh_backend_answer_job(app, call, 202, job->id); /* a retry must not escalate */
        return;
    }
    if (command.kind == BH_COMMAND_LIMITS && !limits_ok(job, call, &command))
        return;
    if (!was_asked_for(job->spec, call, command.kind))
        return;
    if (!job->link) {
        bh_reply_refuse(call, BH_E_AGAIN,
                        "The job is starting or ending and cannot be reached at this "
                        "moment. Try again.");
        return;
    }
    if (command.kind == BH_COMMAND_STOP)
        job->stop_asked = true;
    send_command(app, call, job, &command);
}

static void op_remove(void *self, struct bh_call *call)
{
    struct bh_app *app = self;
    struct bh_found found;
    struct bh_diag diag = {0};
    if (!bh_backend_need(app, call, &found))
        return;
    if (found.job) {
        bh_reply_refuse(call, BH_E_WRONG_STATE, "The job is %s. Stop it first, then remove it.",
                        bh_job_state_text((int)found.job->state));
        return;
    }
    int result = bh_store_job_delete(app->store, found.row.id, &diag);
    bh_found_done(&found);
    if (result < 0) {
        bh_reply_error(call, result, &diag);
        return;
    }
    bh_feed_purge(app->feed);
    bh_reply_empty(call, 204);
}

void bh_backend_init_control(struct bh_app *app)
{
    app->backend.command = op_command;
    app->backend.remove = op_remove;
}
