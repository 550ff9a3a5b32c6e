/* External jobs: no process of ours, events and report come over the API. Operations of
 * struct bh_backend. */
#ifndef BH_SERVER_EXTERNAL_H
#define BH_SERVER_EXTERNAL_H

#include "server/jobs.h"

void bh_external_put_report(void *self, struct bh_call *call);
void bh_external_post_events(void *self, struct bh_call *call, bool ndjson);

/* The import of a job with job->put has taken all that was posted: stores the report, ends the job
 * and answers. The job is gone afterwards when that succeeded. */
void bh_external_imported(struct bh_job *job);
/* Answers a report that still waits (server exit). */
void bh_external_refuse(struct bh_job *job);

#endif
