/* Idempotency-Key of POST /v1/jobs (api/api.md, section 5): the store keeps key, body hash, job
 * id and answer for 24 h. Loop thread. */
#ifndef BH_SERVER_IDEMPOTENCY_H
#define BH_SERVER_IDEMPOTENCY_H

#include "server/app.h"

/* Reserves the key for this job id. False after having answered: with the stored answer, or 409,
 * 422, 503. */
bool bh_idempotency_begin(struct bh_app *app, struct bh_call *call, const char *key,
                          const char *job_id);
void bh_idempotency_keep(struct bh_app *app, const char *key, int status,
                         const struct bh_bytes *answer);
void bh_idempotency_drop(struct bh_app *app, const char *key);
/* At start: settles keys that were in progress when the server died, from what became of their
 * jobs. */
void bh_idempotency_settle(struct bh_app *app);

#endif
