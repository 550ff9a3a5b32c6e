#include "server/idempotency.h"

#include <stdio.h>
#include <string.h>

#include "api/reply.h"
#include "api/view_json.h"
#include "core/base/crc32c.h"
#include "core/base/log.h"
#include "server/backend.h"

/* 32 bytes that tell bodies apart: eight CRCs over differently seeded, strided views. Not against
 * attackers, who would have to know the key and hold our token already. */
static void hash_body(const struct bh_bytes *body, unsigned char ret_hash[static 32])
{
    static const unsigned char none[1] = {0};
    const unsigned char *data = body->length ? body->data : none;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t crc = bh_crc32c(i * 0x9e3779b9u + (uint32_t)body->length, data, body->length);
        for (size_t k = i; k < body->length; k += 8)
            crc = bh_crc32c(crc, data + k, 1);
        memcpy(ret_hash + 4 * (size_t)i, &crc, 4);
    }
}

bool bh_idempotency_begin(struct bh_app *app, struct bh_call *call, const char *key,
                          const char *job_id)
{
    unsigned char hash[32];
    enum bh_idempotency state = BH_IDEMPOTENCY_NEW;
    struct bh_idempotency_row row = {0};
    struct bh_diag diag = {0};
    hash_body(&call->body, hash);
    int result = bh_store_idempotency_begin(app->store, key, hash, job_id, bh_clock_wall(), &state,
                                            &row, &diag);
    if (result >= 0 && state == BH_IDEMPOTENCY_NEW) {
        bh_bytes_done(&row.answer);
        return true;
    }
    if (result == BH_E_IDEMPOTENCY_MISMATCH)
        bh_reply_refuse(call, result, "This key was used with another body. Choose a fresh key.");
    else if (result == BH_E_IDEMPOTENCY_BUSY)
        bh_reply_refuse(call, result,
                        "The first request with this key is still being worked on. Ask "
                        "again in a moment.");
    else if (result < 0)
        bh_reply_error(call, result, &diag);
    else {
        call->reply.body = row.answer;
        row.answer = (struct bh_bytes){0};
        bh_reply_header(call, "Location", "/v1/jobs/%s", row.job_id);
        bh_reply_body(call, row.status, row.status < 400 ? BH_TYPE_JSON : BH_TYPE_PROBLEM);
    }
    bh_bytes_done(&row.answer);
    return false;
}

void bh_idempotency_keep(struct bh_app *app, const char *key, int status,
                         const struct bh_bytes *answer)
{
    struct bh_diag diag = {0};
    if (bh_store_idempotency_end(app->store, key, status, answer->data, answer->length, &diag) < 0)
        bh_log(BH_LOG_WARNING, "an idempotency key cannot be kept: %s", diag.detail);
}

void bh_idempotency_drop(struct bh_app *app, const char *key)
{
    (void)bh_store_idempotency_drop(app->store, key, NULL);
}

struct settling {
    struct bh_app *app;
    unsigned count;
    struct {
        char key[256];
        char id[BH_JOB_ID_SIZE];
    } items[64];
};

static int collect(void *user, const char *key, const char *job_id)
{
    struct settling *settling = user;
    if (settling->count == 64)
        return BH_E_END;
    (void)snprintf(settling->items[settling->count].key, 256, "%s", key);
    (void)snprintf(settling->items[settling->count++].id, BH_JOB_ID_SIZE, "%s", job_id);
    return BH_OK;
}

void bh_idempotency_settle(struct bh_app *app)
{
    struct settling settling;
    do {
        settling.app = app;
        settling.count = 0;
        (void)bh_store_idempotency_open(app->store, collect, &settling, NULL);
        for (unsigned i = 0; i < settling.count; i++) {
            struct bh_found found;
            struct bh_bytes body = {0};
            if (bh_backend_find(app, settling.items[i].id, &found, NULL) < 0) {
                bh_idempotency_drop(app, settling.items[i].key); /* nothing was made */
                continue;
            }
            struct bh_job_view view;
            bh_found_view(&found, &view);
            /* made, and never started: nothing ran, so the repeated request shall launch */
            if (view.state == BH_JOB_FAILED_TO_START && view.started_at.us == 0) {
                bh_idempotency_drop(app, settling.items[i].key);
            } else {
                bh_view_job_document(&view, &body);
                bh_idempotency_keep(app, settling.items[i].key, 201, &body);
            }
            bh_bytes_done(&body);
            bh_found_done(&found);
        }
    } while (settling.count == 64);
}
