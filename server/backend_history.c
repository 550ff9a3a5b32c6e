/* Histories of a job: transitions, signals, members. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reply.h"
#include "api/view_json.h"
#include "server/backend.h"
#include "server/link_events.h"
#include "server/sup_link.h"

struct history {
    struct bh_json json;
    struct bh_anchor anchor;
    struct bh_wall started;
    enum bh_history which;
};

static int write_fact(void *user, const struct bh_record *record)
{
    struct history *history = user;
    if (record->kind == BH_RECORD_TRANSITION)
        bh_view_transition(&history->json, NULL, NULL, record, history->anchor, history->started);
    else if (record->kind == BH_RECORD_SIGNAL)
        bh_view_signal(&history->json, NULL, NULL, record, history->anchor, history->started);
    return BH_OK;
}

/* Members of a job: folded from its MEMBER records, the live ones with their charge where asked. */
struct members {
    struct bh_member_view items[512];
    char names[512][BH_BASENAME_SIZE];
    size_t count;
    struct bh_anchor anchor;
    struct bh_wall started;
    int root_pid;
};

static struct bh_member_view *member_of(struct members *members, int pid, uint64_t token)
{
    for (size_t i = 0; i < members->count; i++) {
        if (members->items[i].pid == pid && members->items[i].start_token == token)
            return &members->items[i];
    }
    if (members->count == 512)
        return NULL;
    struct bh_member_view *member = &members->items[members->count];
    member->basename = members->names[members->count++];
    member->pid = pid;
    member->start_token = token;
    member->root = pid == members->root_pid;
    return member;
}

static int fold_member(void *user, const struct bh_record *record)
{
    struct members *members = user;
    if (record->kind == BH_RECORD_LAUNCHED) {
        members->root_pid = record->launched.root_pid;
        return BH_OK;
    }
    const struct bh_record_member *fact = &record->member;
    struct bh_member_view *member = member_of(members, fact->pid, fact->start_token);
    int64_t ms = (bh_clock_epoch_us(members->anchor, record->at) - members->started.us) / 1000;
    if (!member)
        return BH_OK;
    if (fact->basename[0])
        (void)snprintf(members->names[member - members->items], BH_BASENAME_SIZE, "%s",
                       fact->basename);
    switch (fact->event) {
    case BH_MEMBER_CAME:
        member->has_joined = true;
        member->joined_ms = ms > 0 ? (uint64_t)ms : 0;
        break;
    case BH_MEMBER_WENT:
        member->has_left = true;
        member->left_ms = ms > 0 ? (uint64_t)ms : 0;
        break;
    case BH_MEMBER_LEFT_GROUP:
    case BH_MEMBER_LEFT_SESSION:
        member->left_group = true;
        break;
    case BH_MEMBER_REPARENTED:
    case BH_MEMBER_EXEC:
        break;
    }
    return BH_OK;
}

static void write_members(struct members *members, struct bh_json *json)
{
    for (int left = 0; left < 2; left++) { /* live ones first */
        for (size_t i = 0; i < members->count; i++) {
            if (members->items[i].has_left == (left == 1))
                bh_view_member(json, NULL, &members->items[i]);
        }
    }
}

/* A MEMBERS question to the supervisor on its way. */
struct members_call {
    struct bh_call *call;
    struct bh_json json;
    struct members members;
};

static void take_live(void *user, const struct bh_member_view *seen)
{
    struct members *members = user;
    struct bh_member_view *member = member_of(members, seen->pid, seen->start_token);
    if (!member)
        return;
    member->charge = seen->charge;
    member->left_group = member->left_group || seen->left_group;
    member->has_left = false;
    if (seen->basename[0])
        (void)snprintf(members->names[member - members->items], BH_BASENAME_SIZE, "%s",
                       seen->basename);
}

static void finish_members(struct members_call *pending)
{
    write_members(&pending->members, &pending->json);
    bh_json_end(&pending->json);
    bh_json_end(&pending->json);
    bh_json_finish(&pending->json);
    bh_reply_body(pending->call, 200, BH_TYPE_JSON);
    free(pending);
}

static void on_members(void *user, int result, const struct bh_frame *frame,
                       const struct bh_diag *diag)
{
    struct members_call *pending = user;
    (void)diag; /* without the supervisor the journal's members are the answer */
    if (result >= 0)
        (void)bh_link_read_members(frame, take_live, &pending->members);
    finish_members(pending);
}

static void answer_members(struct bh_app *app, struct bh_call *call, const struct bh_found *found)
{
    struct bh_job_view view;
    struct members_call *pending = calloc(1, sizeof *pending);
    if (!pending) {
        bh_reply_error(call, BH_E_NOMEM, NULL);
        return;
    }
    bh_found_view(found, &view);
    pending->call = call;
    pending->members.anchor = view.anchor;
    pending->members.started = view.started_at;
    pending->members.root_pid = view.root_pid;
    (void)bh_store_records(app->store, view.id,
                           BH_STORE_KIND(LAUNCHED) | BH_STORE_KIND(MEMBER) | BH_STORE_KIND(ESCAPE),
                           0, 10000, fold_member, &pending->members, NULL);
    bh_json_begin(&pending->json, &call->reply.body, BH_JSON_COMPACT);
    bh_json_object(&pending->json, NULL);
    bh_json_array(&pending->json, "members");
    if (found->job && found->job->link)
        bh_link_request(found->job->link, BH_MSG_MEMBERS, NULL, 0, on_members, pending);
    else
        finish_members(pending);
}

static void op_history(void *self, struct bh_call *call, enum bh_history which)
{
    struct bh_app *app = self;
    struct bh_found found;
    struct bh_job_view view;
    struct bh_diag diag = {0};
    if (!bh_backend_need(app, call, &found))
        return;
    if (which == BH_HISTORY_MEMBERS) {
        answer_members(app, call, &found);
        bh_found_done(&found);
        return;
    }
    bh_found_view(&found, &view);
    struct history history = {.anchor = view.anchor, .started = view.started_at, .which = which};
    bool transitions = which == BH_HISTORY_TRANSITIONS;
    bh_json_begin(&history.json, &call->reply.body, BH_JSON_COMPACT);
    bh_json_object(&history.json, NULL);
    bh_json_array(&history.json, transitions ? "transitions" : "signals");
    int result = bh_store_records(app->store, view.id,
                                  transitions ? BH_STORE_KIND(TRANSITION) : BH_STORE_KIND(SIGNAL),
                                  0, 10000, write_fact, &history, &diag);
    bh_json_end(&history.json);
    bh_json_end(&history.json);
    bh_json_finish(&history.json);
    bh_found_done(&found);
    if (result < 0)
        bh_reply_error(call, result, &diag);
    else
        bh_reply_body(call, 200, BH_TYPE_JSON);
}

void bh_backend_init_history(struct bh_app *app)
{
    app->backend.history = op_history;
}
