/* handlers.h: launching, reading and commanding jobs. */
#include <stdio.h>
#include <string.h>

#include "api/handlers.h"
#include "api/jget.h"
#include "api/job_json.h"
#include "api/query.h"
#include "api/reply.h"
#include "core/base/text.h"

static const char *const no_fields[] = {NULL};

/* Answers with the problem when there is one. */
static bool refused(struct bh_call *call, const struct bh_problem *problem)
{
    if (problem->error)
        bh_reply_problem(call, problem);
    return problem->error != 0;
}

/* For routes without query fields. */
static bool has_query(struct bh_call *call)
{
    struct bh_problem problem = {0};
    bh_query_known(call, no_fields, &problem);
    return refused(call, &problem);
}

void bh_handle_launch(struct bh_call *call)
{
    struct bh_problem problem = {0};
    struct bh_launch_request launch;
    if (has_query(call))
        return;
    const char *key = call->header(call, "Idempotency-Key");
    if (key && (strlen(key) == 0 || strlen(key) > 255)) {
        bh_reply_refuse(call, BH_E_INVALID_VALUE, "Idempotency-Key has 1 to 255 characters.");
        return;
    }
    if (bh_job_json_read(call->body.data, call->body.length, &launch, &problem) < 0) {
        bh_reply_problem(call, &problem);
        return;
    }
    launch.idempotency_key = key;
    call->backend->launch(call->backend->self, call, &launch);
    bh_launch_done(&launch);
}

void bh_handle_relaunch(struct bh_call *call)
{
    if (!has_query(call))
        call->backend->relaunch(call->backend->self, call);
}

/* "running,stopping" to bits. */
static void read_states(const char *text, struct bh_list_query *query, struct bh_problem *problem)
{
    while (text && *text) {
        size_t length = strcspn(text, ",");
        int state = BH_JOB_STARTING;
        for (; state <= BH_JOB_FAILED_TO_START; state++) {
            const char *name = bh_job_state_text(state);
            if (strlen(name) == length && strncmp(name, text, length) == 0)
                break;
        }
        if (state > BH_JOB_FAILED_TO_START) {
            bh_problem_add(problem, BH_E_BAD_QUERY, "?state",
                           "Give starting, running, checkpointing, stopping, finished or "
                           "failed_to_start, several separated by commas.");
            return;
        }
        query->states |= 1u << state;
        text += length;
        if (*text == ',')
            text++;
    }
}

void bh_handle_list(struct bh_call *call)
{
    static const char *const known[] = {"state", "label", "name", "limit", "cursor", NULL};
    struct bh_problem problem = {0};
    struct bh_list_query query = {0};
    uint64_t limit = 100;
    char label[64 + 1 + 256 + 1]; /* the longest there can be: longer ones match no job */
    bh_query_known(call, known, &problem);
    read_states(bh_query_text(call, "state"), &query, &problem);
    (void)bh_query_u64(call, "limit", 1, 1000, &limit, &problem);
    query.limit = (unsigned)limit;
    query.name = bh_query_text(call, "name");
    const char *text = bh_query_text(call, "label");
    if (text) {
        if (snprintf(label, sizeof label, "%s", text) >= (int)sizeof label)
            bh_problem_add(&problem, BH_E_BAD_QUERY, "?label", "No label is that long.");
        char *colon = strchr(label, ':');
        if (!colon || colon == label)
            bh_problem_add(&problem, BH_E_BAD_QUERY, "?label", "Give label=key:value.");
        else
            *colon++ = '\0';
        query.label_key = label;
        query.label_value = colon;
    }
    text = bh_query_text(call, "cursor");
    if (text && !bh_text_is_job_id(text))
        bh_problem_add(&problem, BH_E_BAD_QUERY, "?cursor", "Give next_cursor of the page before.");
    else if (text)
        (void)snprintf(query.cursor, sizeof query.cursor, "%.20s", text);
    if (!refused(call, &problem))
        call->backend->list(call->backend->self, call, &query);
}

void bh_handle_get(struct bh_call *call)
{
    static const char *const known[] = {"wait", "since", NULL};
    struct bh_problem problem = {0};
    uint64_t wait_ns = 0;
    uint64_t since = 0;
    bh_query_known(call, known, &problem);
    (void)bh_query_duration(call, "wait", BH_API_MAX_WAIT_NS, &wait_ns, &problem);
    bool has_since = bh_query_u64(call, "since", 0, INT64_MAX, &since, &problem);
    if (!refused(call, &problem))
        call->backend->get(call->backend->self, call, wait_ns, has_since, since);
}

void bh_handle_spec(struct bh_call *call)
{
    if (!has_query(call))
        call->backend->spec(call->backend->self, call);
}

void bh_handle_remove(struct bh_call *call)
{
    if (!has_query(call))
        call->backend->remove(call->backend->self, call);
}

/* Opens an optional body; *ret_root stays NULL for an empty one. False after a refusal. */
static bool open_body(struct bh_call *call, const char *const *members, json_t **ret_root,
                      struct bh_jget *ret_reader, struct bh_problem *problem)
{
    *ret_root = NULL;
    *ret_reader = (struct bh_jget){.problem = problem};
    if (call->body.length == 0)
        return true;
    *ret_root = bh_jget_parse(call->body.data, call->body.length, problem);
    if (*ret_root)
        bh_jget_open(ret_reader, *ret_root, "", members, problem);
    return true;
}

static void finish_command(struct bh_call *call, json_t *root, const struct bh_problem *problem,
                           const struct bh_command *command)
{
    if (!refused(call, problem))
        call->backend->command(call->backend->self, call, command);
    json_decref(root);
}

void bh_handle_stop(struct bh_call *call)
{
    static const char *const members[] = {"grace", "checkpoint", NULL};
    struct bh_problem problem = {0};
    struct bh_command command = {.kind = BH_COMMAND_STOP};
    struct bh_jget body;
    json_t *root;
    bh_query_known(call, no_fields, &problem);
    (void)open_body(call, members, &root, &body, &problem);
    command.has_grace = bh_jget_duration(&body, "grace", &command.grace_ns);
    (void)bh_jget_bool(&body, "checkpoint", &command.checkpoint);
    finish_command(call, root, &problem, &command);
}

/* Commands without members. */
static void plain_command(struct bh_call *call, enum bh_command_kind kind)
{
    struct bh_problem problem = {0};
    struct bh_command command = {.kind = kind};
    struct bh_jget body;
    json_t *root;
    bh_query_known(call, no_fields, &problem);
    (void)open_body(call, no_fields, &root, &body, &problem);
    finish_command(call, root, &problem, &command);
}

void bh_handle_kill(struct bh_call *call)
{
    plain_command(call, BH_COMMAND_KILL);
}

void bh_handle_checkpoint(struct bh_call *call)
{
    plain_command(call, BH_COMMAND_CHECKPOINT);
}

void bh_handle_signal(struct bh_call *call)
{
    static const char *const members[] = {"signal", NULL};
    struct bh_problem problem = {0};
    struct bh_command command = {.kind = BH_COMMAND_SIGNAL};
    struct bh_jget body;
    json_t *root;
    bh_query_known(call, no_fields, &problem);
    (void)open_body(call, members, &root, &body, &problem);
    if (problem.error == 0 && !bh_jget_has(&body, "signal"))
        bh_jget_refuse(&body, BH_E_MISSING_MEMBER, "signal", "Say which, like \"SIGINT\".");
    (void)bh_jget_signal(&body, "signal", &command.signal);
    finish_command(call, root, &problem, &command);
}

void bh_handle_recording(struct bh_call *call)
{
    static const char *const members[] = {"enabled", "mark", NULL};
    struct bh_problem problem = {0};
    struct bh_command command = {.kind = BH_COMMAND_RECORDING};
    struct bh_jget body;
    json_t *root;
    const char *mark = NULL;
    bh_query_known(call, no_fields, &problem);
    (void)open_body(call, members, &root, &body, &problem);
    command.has_enabled = bh_jget_bool(&body, "enabled", &command.enabled);
    if (bh_jget_text(&body, "mark", &mark)) {
        if (!*mark || strlen(mark) >= sizeof command.mark)
            bh_jget_refuse(&body, BH_E_INVALID_VALUE, "mark", "A mark has 1 to 128 bytes.");
        else
            (void)snprintf(command.mark, sizeof command.mark, "%s", mark);
    }
    if (problem.error == 0 && !command.has_enabled && !mark)
        bh_jget_refuse(&body, BH_E_MISSING_MEMBER, NULL, "Give enabled or mark.");
    finish_command(call, root, &problem, &command);
}

/* "limits-7" in quotes. */
static bool read_revision(const char *text, uint32_t *ret_revision)
{
    char digits[16];
    uint64_t value = 0;
    size_t length = strlen(text);
    if (length < 10 || length > 19 || strncmp(text, "\"limits-", 8) != 0 || text[length - 1] != '"')
        return false;
    memcpy(digits, text + 8, length - 9);
    digits[length - 9] = '\0';
    if (bh_text_u64(digits, "If-Match", UINT32_MAX, &value, NULL) < 0)
        return false;
    *ret_revision = (uint32_t)value;
    return true;
}

void bh_handle_limits(struct bh_call *call)
{
    struct bh_problem problem = {0};
    struct bh_command command = {.kind = BH_COMMAND_LIMITS};
    const char *match = call->header(call, "If-Match");
    bh_query_known(call, no_fields, &problem);
    if (refused(call, &problem))
        return;
    if (!match) {
        bh_reply_refuse(call, BH_E_PRECONDITION_REQUIRED,
                        "Send If-Match: \"limits-N\", N being limits_revision of the job.");
        return;
    }
    if (!read_revision(match, &command.revision)) {
        bh_reply_refuse(
            call, BH_E_PRECONDITION_FAILED,
            "If-Match is not of the form \"limits-N\". Read the job and send it again.");
        return;
    }
    if (bh_limits_json_read(call->body.data, call->body.length, &command, &problem) < 0)
        bh_reply_problem(call, &problem);
    else
        call->backend->command(call->backend->self, call, &command);
}
