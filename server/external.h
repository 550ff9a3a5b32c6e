/* External jobs: no process of ours, events and report come over the API. Operations of
 * struct bh_backend. */
#ifndef BH_SERVER_EXTERNAL_H
#define BH_SERVER_EXTERNAL_H

#include "server/app.h"

void bh_external_put_report(void *self, struct bh_call *call);
void bh_external_post_events(void *self, struct bh_call *call, bool ndjson);

#endif
