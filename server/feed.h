/* Feeding the database: decides on the loop which import step comes next, runs it on the pool (one
 * at a time: they share one write connection), and takes its result. Also the slow rest of a job's
 * life: the reclamation readings 10 s after its end, retention, and the removal of deleted jobs.
 *
 * A job that ended leaves the registry when its import is complete; after repeated failures (a full
 * disk) it leaves all the same, with what is known. */
#ifndef BH_SERVER_FEED_H
#define BH_SERVER_FEED_H

#include "server/jobs.h"

int bh_feed_new(struct bh_app *app, struct bh_feed **ret_feed, struct bh_diag *diag);
/* Nothing new is begun; a step in work ends by itself. */
void bh_feed_close(struct bh_feed *feed);
bool bh_feed_working(const struct bh_feed *feed);
void bh_feed_free(struct bh_feed *feed); /* after the loop */

/* Rebuilds what the database does not know, then calls back once on the loop. */
void bh_feed_reindex(struct bh_feed *feed, void (*done)(struct bh_app *app));
/* The job has something new, or has ended. */
void bh_feed_want(struct bh_feed *feed, struct bh_job *job);
/* Calls bh_supervise_look for jobs that are not connected, in 100 ms. */
void bh_feed_look_later(struct bh_feed *feed, struct bh_job *job);
/* A job was deleted: remove its directory and rows soon. */
void bh_feed_purge(struct bh_feed *feed);

#endif
