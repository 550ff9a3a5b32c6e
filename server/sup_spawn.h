/* Helper processes of supervise.h: run `bulkhead-supervise VERB RUNDIR`, read its verdict. */
#ifndef BH_SERVER_SUP_SPAWN_H
#define BH_SERVER_SUP_SPAWN_H

#include "server/jobs.h"

/* status: exit status, 128 + signal; text: what it wrote to stdout, up to 4 KiB. The job is
 * not busy any more when this is called. */
typedef void (*bh_helper_done)(void *user, struct bh_job *job, int status, const char *text);

/* Starts the helper and marks the job busy. */
int bh_helper_run(struct bh_job *job, const char *verb, bh_helper_done done, void *user,
                  struct bh_diag *diag);
/* Exit status and text of `start` as a typed error with a sentence; BH_OK for 0. */
int bh_helper_verdict(int status, const char *text, const struct bh_job_spec *spec,
                      struct bh_diag *diag);

#endif
