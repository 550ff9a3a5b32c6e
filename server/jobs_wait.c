#include "server/jobs_wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reply.h"
#include "server/backend.h"

#define TICK_MS 50u

struct bh_waiter {
    struct bh_waiter *next;
    struct bh_call *call;
    char id[BH_JOB_ID_SIZE];
    uint64_t until_ms; /* loop time */
};

void bh_waiters_init(struct bh_waiters *waiters, struct bh_app *app)
{
    waiters->app = app;
    (void)uv_timer_init(&app->loop, &waiters->timer);
    waiters->timer.data = waiters;
}

static void on_closed(uv_handle_t *handle)
{
    (void)handle; /* lives in the registry, freed after the loop */
}

void bh_waiters_close(struct bh_waiters *waiters)
{
    uv_close((uv_handle_t *)&waiters->timer, on_closed);
}

static void answer(struct bh_waiter *waiter, const struct bh_bytes *document)
{
    struct bh_call *call = waiter->call;
    free(waiter);
    bh_bytes_append(&call->reply.body, document->data, document->length);
    bh_reply_body(call, 200, BH_TYPE_JSON);
}

void bh_waiters_answer(struct bh_waiters *waiters, const char *id, const struct bh_bytes *document)
{
    struct bh_waiter **at = &waiters->first;
    while (*at) {
        struct bh_waiter *waiter = *at;
        if (strcmp(waiter->id, id) != 0) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        answer(waiter, document);
    }
}

/* Answers those whose time is over, or all. */
static void expire(struct bh_waiters *waiters, bool all)
{
    uint64_t now = uv_now(&waiters->app->loop);
    struct bh_waiter **at = &waiters->first;
    while (*at) {
        struct bh_waiter *waiter = *at;
        if (!all && waiter->until_ms > now) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        struct bh_call *call = waiter->call;
        char id[BH_JOB_ID_SIZE];
        memcpy(id, waiter->id, sizeof id);
        free(waiter);
        bh_backend_answer_job(waiters->app, call, 200, id);
    }
    if (!waiters->first)
        (void)uv_timer_stop(&waiters->timer);
}

static void on_tick(uv_timer_t *timer)
{
    expire(timer->data, false);
}

int bh_waiters_add(struct bh_waiters *waiters, const char *id, struct bh_call *call,
                   uint64_t wait_ns)
{
    struct bh_waiter *waiter = calloc(1, sizeof *waiter);
    if (!waiter)
        return BH_E_NOMEM;
    waiter->call = call;
    waiter->until_ms = uv_now(&waiters->app->loop) + wait_ns / BH_NS_PER_MS;
    (void)snprintf(waiter->id, sizeof waiter->id, "%s", id);
    waiter->next = waiters->first;
    waiters->first = waiter;
    (void)uv_timer_start(&waiters->timer, on_tick, TICK_MS, TICK_MS);
    return BH_OK;
}

void bh_waiters_release(struct bh_waiters *waiters)
{
    expire(waiters, true);
}
