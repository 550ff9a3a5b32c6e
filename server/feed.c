#include "server/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/log.h"
#include "server/external.h"
#include "server/import.h"
#include "server/retention.h"
#include "server/supervise.h"

#define TICK_MS      100u
#define STEP_GAP_MS  200u   /* between two steps of a running job */
#define RETRY_MS     1000u  /* after a failed step */
#define GIVE_UP      5u     /* failed steps of an ended job */
#define RECLAIM_MS   12000u /* the last reading is taken 10 s after the end */
#define RETENTION_MS 600000u
#define MAX_RECLAIMS 256u

enum task { TASK_NONE, TASK_STEP, TASK_RECLAIM, TASK_PURGE, TASK_REINDEX };

struct reclaim {
    char id[BH_JOB_ID_SIZE];
    uint64_t due_ms;
};

struct bh_feed {
    struct bh_app *app;
    struct bh_import *import;
    uv_timer_t timer;
    uv_work_t work;
    bool closed;

    /* the task in work; task is set while one is */
    enum task task;
    struct bh_job *job; /* TASK_STEP; stays in the registry meanwhile */
    char id[BH_JOB_ID_SIZE];
    int dirfd;
    bool ended;
    int result;
    struct bh_diag diag;
    struct bh_import_step step;
    struct bh_reindex_result reindexed;
    bool more;
    void (*reindex_done)(struct bh_app *app);

    bool purge_wanted, reindex_wanted;
    uint64_t retention_ms; /* loop time of the next run */
    struct reclaim reclaims[MAX_RECLAIMS];
    unsigned reclaim_count;
};

static void on_tick(uv_timer_t *timer);

static void arm(struct bh_feed *feed)
{
    if (!feed->closed && !uv_is_active((uv_handle_t *)&feed->timer))
        (void)uv_timer_start(&feed->timer, on_tick, 20, TICK_MS);
}

int bh_feed_new(struct bh_app *app, struct bh_feed **ret_feed, struct bh_diag *diag)
{
    struct bh_feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        return BH_E_NOMEM;
    int result = bh_import_open(bh_store_path_peek(app->store), &feed->import, diag);
    if (result < 0) {
        free(feed);
        return result;
    }
    feed->app = app;
    feed->purge_wanted = true; /* what a killed server left half removed */
    (void)uv_timer_init(&app->loop, &feed->timer);
    feed->timer.data = feed;
    feed->work.data = feed;
    *ret_feed = feed;
    return BH_OK;
}

static void on_closed(uv_handle_t *handle)
{
    (void)handle; /* lives in the feed, freed after the loop */
}

void bh_feed_close(struct bh_feed *feed)
{
    feed->closed = true;
    uv_close((uv_handle_t *)&feed->timer, on_closed);
}

bool bh_feed_working(const struct bh_feed *feed)
{
    return feed->task != TASK_NONE;
}

void bh_feed_free(struct bh_feed *feed)
{
    if (!feed)
        return;
    bh_import_close(feed->import);
    free(feed);
}

/* ---- on the pool ---------------------------------------------------------------------------- */

/* A free lock without a report is a job to be adopted, not one that has ended. */
static bool is_ended(void *user, int dirfd)
{
    struct stat st;
    (void)user;
    return !bh_supervise_locked(dirfd) &&
           fstatat(dirfd, "report.json", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void on_work(uv_work_t *work)
{
    struct bh_feed *feed = work->data;
    switch (feed->task) {
    case TASK_NONE:
        break;
    case TASK_STEP:
        feed->result = bh_import_step(feed->import, feed->id, feed->dirfd, feed->ended, 0,
                                      &feed->step, &feed->diag);
        break;
    case TASK_RECLAIM:
        feed->result = bh_import_reclamation(feed->import, feed->id, feed->dirfd, &feed->diag);
        break;
    case TASK_PURGE:
        feed->result = bh_import_purge(feed->import, feed->app->jobs_fd, &feed->more, &feed->diag);
        break;
    case TASK_REINDEX:
        feed->result = bh_reindex(feed->import, feed->app->jobs_fd, is_ended, NULL, NULL,
                                  &feed->reindexed, &feed->diag);
        break;
    }
}

/* ---- results, on the loop ------------------------------------------------------------------- */

static void remember_reclaim(struct bh_feed *feed, const char *id)
{
    if (feed->reclaim_count == MAX_RECLAIMS)
        return; /* GET report reads the file itself then */
    struct reclaim *reclaim = &feed->reclaims[feed->reclaim_count++];
    (void)snprintf(reclaim->id, sizeof reclaim->id, "%s", id);
    reclaim->due_ms = uv_now(&feed->app->loop) + RECLAIM_MS;
}

static void end_job(struct bh_feed *feed, struct bh_job *job)
{
    bh_import_forget(feed->import, job->id);
    remember_reclaim(feed, job->id);
    feed->retention_ms = 0;
    bh_jobs_finish(job);
}

static void after_step(struct bh_feed *feed)
{
    struct bh_job *job = feed->job;
    uint64_t now = uv_now(&feed->app->loop);
    job->importing = false;
    job->import_after_ms = now + (job->ended ? 0 : STEP_GAP_MS);
    bool fatal = feed->result == BH_E_MALFORMED || feed->result == BH_E_CHECKSUM;
    /* what space or time heals is tried for as long as it takes: a job that is given up while the
     * database cannot be written would stay unfinished there */
    bool passing = feed->result == BH_E_NOSPACE || feed->result == BH_E_IO ||
                   feed->result == BH_E_BUSY || feed->result == BH_E_NOMEM;
    if (feed->result < 0) {
        if (!passing || job->import_failures + 1 < GIVE_UP)
            job->import_failures++;
        if (job->import_failures == 1)
            bh_log(BH_LOG_WARNING, "job %s: its data cannot be imported: %s; trying again", job->id,
                   feed->diag.detail);
        job->import_after_ms = now + RETRY_MS;
        job->dirty = job->dirty || job->ended || !fatal;
    } else {
        job->import_failures = 0;
        job->dirty = job->dirty || feed->step.more;
    }
    if (job->spec->external && feed->step.new_events &&
        bh_store_job_get(feed->app->store, job->id, &job->row, NULL) >= 0)
        bh_jobs_changed(job);
    if (job->put && ((!job->dirty && feed->result >= 0) || job->import_failures >= GIVE_UP))
        bh_external_imported(job);
    else if (feed->ended && (feed->step.complete || job->import_failures >= GIVE_UP))
        end_job(feed, job);
}

static void after_reindex(struct bh_feed *feed)
{
    if (feed->result < 0)
        bh_log(BH_LOG_ERROR, "the run directories cannot be indexed: %s; serving what is there",
               feed->diag.detail);
    if (!feed->closed)
        feed->reindex_done(feed->app);
}

static void on_done(uv_work_t *work, int status)
{
    struct bh_feed *feed = work->data;
    enum task task = feed->task;
    (void)status;
    feed->task = TASK_NONE;
    if ((task == TASK_RECLAIM || task == TASK_STEP) && feed->dirfd >= 0)
        (void)close(feed->dirfd);
    if (task == TASK_STEP)
        after_step(feed);
    else if (task == TASK_REINDEX)
        after_reindex(feed);
    else if (task == TASK_PURGE && feed->result >= 0)
        feed->purge_wanted = feed->purge_wanted || feed->more;
    else if (task == TASK_PURGE)
        bh_log(BH_LOG_WARNING, "deleted jobs cannot be removed now: %s", feed->diag.detail);
    arm(feed);
    if (!feed->closed && task != TASK_NONE)
        on_tick(&feed->timer);
}

/* ---- choosing the next task ----------------------------------------------------------------- */

static void begin(struct bh_feed *feed, enum task task)
{
    feed->task = task;
    feed->step = (struct bh_import_step){0};
    feed->diag = (struct bh_diag){0};
    feed->more = false;
    if (uv_queue_work(&feed->app->loop, &feed->work, on_work, on_done) < 0)
        feed->task = TASK_NONE;
}

static bool begin_step(struct bh_feed *feed)
{
    uint64_t now = uv_now(&feed->app->loop);
    struct bh_job *chosen = NULL;
    for (struct bh_job *job = bh_jobs_first(feed->app->jobs); job; job = job->next) {
        if (!job->dirty || job->importing || job->dirfd < 0 || job->import_after_ms > now ||
            job->state == BH_JOB_STARTING)
            continue;
        /* the one that has waited longest; ended ones first, for somebody waits for their report */
        if (!chosen || (job->ended && !chosen->ended) ||
            (job->ended == chosen->ended && job->import_after_ms < chosen->import_after_ms))
            chosen = job;
    }
    if (!chosen)
        return false;
    feed->dirfd = dup(chosen->dirfd);
    if (feed->dirfd < 0)
        return false;
    (void)bh_io_set_cloexec(feed->dirfd, true);
    chosen->dirty = false;
    chosen->importing = true;
    feed->job = chosen;
    feed->ended = chosen->ended;
    memcpy(feed->id, chosen->id, sizeof feed->id);
    begin(feed, TASK_STEP);
    return true;
}

static bool begin_reclaim(struct bh_feed *feed)
{
    uint64_t now = uv_now(&feed->app->loop);
    for (unsigned i = 0; i < feed->reclaim_count; i++) {
        if (feed->reclaims[i].due_ms > now)
            continue;
        memcpy(feed->id, feed->reclaims[i].id, sizeof feed->id);
        feed->reclaims[i] = feed->reclaims[--feed->reclaim_count];
        if (bh_io_open_dir(feed->app->jobs_fd, feed->id, &feed->dirfd, NULL) < 0)
            return false;
        begin(feed, TASK_RECLAIM);
        return true;
    }
    return false;
}

static void run_retention(struct bh_feed *feed)
{
    const struct bh_config *config = feed->app->config;
    struct bh_diag diag = {0};
    uint32_t marked = 0;
    struct bh_retention retention = {
        .max_jobs = (uint32_t)bh_config_number(config, BH_PARAM_KEEP_JOBS),
        .max_age_us = bh_config_number(config, BH_PARAM_KEEP_TIME) / 1000,
        .max_bytes = bh_config_number(config, BH_PARAM_KEEP_BYTES),
    };
    feed->retention_ms = uv_now(&feed->app->loop) + RETENTION_MS;
    if (bh_retention_run(feed->app->store, &retention, bh_clock_wall(), &marked, &diag) < 0)
        bh_log(BH_LOG_WARNING, "old jobs cannot be chosen for removal: %s", diag.detail);
    feed->purge_wanted = feed->purge_wanted || marked;
}

static void look_at_unlinked(struct bh_feed *feed, bool *ret_left)
{
    struct bh_job *next;
    for (struct bh_job *job = bh_jobs_first(feed->app->jobs); job; job = next) {
        next = job->next; /* looking may end and free the job */
        if (job->link || job->ended || job->busy || job->spec->external ||
            job->state == BH_JOB_STARTING)
            continue;
        *ret_left = true;
        bh_supervise_look(job);
    }
}

static void choose(struct bh_feed *feed)
{
    if (feed->reindex_wanted) {
        feed->reindex_wanted = false;
        begin(feed, TASK_REINDEX);
        return;
    }
    if (!feed->app->ready || begin_step(feed) || begin_reclaim(feed))
        return;
    if (feed->retention_ms <= uv_now(&feed->app->loop))
        run_retention(feed);
    if (feed->purge_wanted) {
        feed->purge_wanted = false;
        begin(feed, TASK_PURGE);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct bh_feed *feed = timer->data;
    bool left = false;
    if (feed->app->ready)
        look_at_unlinked(feed, &left);
    if (feed->task == TASK_NONE)
        choose(feed);
    if (feed->task != TASK_NONE || left || feed->reclaim_count)
        return;
    for (struct bh_job *job = bh_jobs_first(feed->app->jobs); job; job = job->next) {
        if (job->dirty)
            return;
    }
    (void)uv_timer_stop(timer); /* nothing to do until somebody wants something */
}

void bh_feed_reindex(struct bh_feed *feed, void (*done)(struct bh_app *app))
{
    feed->reindex_done = done;
    feed->reindex_wanted = true;
    arm(feed);
}

void bh_feed_want(struct bh_feed *feed, struct bh_job *job)
{
    job->dirty = true;
    arm(feed);
}

void bh_feed_look_later(struct bh_feed *feed, struct bh_job *job)
{
    (void)job; /* every unconnected job is looked at */
    arm(feed);
}

void bh_feed_purge(struct bh_feed *feed)
{
    feed->purge_wanted = true;
    arm(feed);
}
