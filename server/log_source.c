#include "server/log_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/reply.h"
#include "core/base/io.h"
#include "core/base/scoped.h"
#include "server/jobs.h"

#define FOLLOW_MS 200u

struct log_source {
    struct bh_source source; /* first member: a source is its log */
    struct bh_app *app;
    char id[BH_JOB_ID_SIZE];
    int fd;
    uint64_t position, end; /* end: exclusive; UINT64_MAX = follow */
    uv_timer_t timer;       /* followed logs only */
    bool ending;            /* the job is over: one more look, then the end */
};

static int64_t read_log(struct bh_source *source, char *buffer, size_t capacity)
{
    struct log_source *log = (struct log_source *)source;
    size_t length = 0;
    uint64_t left = log->end - log->position;
    if (left < capacity)
        capacity = (size_t)left;
    if (capacity == 0)
        return BH_E_END;
    if (bh_io_pread(log->fd, buffer, capacity, log->position, &length) < 0)
        return BH_E_IO;
    log->position += length;
    if (length)
        return (int64_t)length;
    /* shorter than promised cannot be mended; a followed one waits while its job lives */
    if (log->end != UINT64_MAX)
        return BH_E_IO;
    if (log->ending || log->app->stopping)
        return BH_E_END;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct log_source *log = handle->data;
    free(log);
}

static void free_log(struct bh_source *source)
{
    struct log_source *log = (struct log_source *)source;
    (void)close(log->fd);
    if (log->end == UINT64_MAX) {
        log->app->followers--;
        uv_close((uv_handle_t *)&log->timer, on_closed);
    } else {
        free(log);
    }
}

static void on_follow(uv_timer_t *timer)
{
    struct log_source *log = timer->data;
    struct stat st;
    struct bh_job *job = bh_jobs_find(log->app->jobs, log->id);
    bool more = fstat(log->fd, &st) == 0 && (uint64_t)st.st_size > log->position;
    log->ending = !job || job->ended;
    if ((more || log->ending || log->app->stopping) && log->source.wake)
        log->source.wake(log->source.wake_data);
}

static int open_log(struct bh_app *app, const char *id, bool stderr_stream, int *ret_fd,
                    uint64_t *ret_size, uint64_t *ret_first)
{
    struct stat st;
    BH_SCOPED_FD int dirfd = -1;
    int result = bh_io_open_dir(app->jobs_fd, id, &dirfd, NULL);
    if (result >= 0)
        result = bh_io_open(dirfd, stderr_stream ? "err.log" : "out.log", O_RDONLY, ret_fd, NULL);
    if (result < 0)
        return result;
    if (fstat(*ret_fd, &st) < 0) {
        (void)close(*ret_fd);
        return BH_E_IO;
    }
    *ret_size = (uint64_t)st.st_size;
    off_t first = lseek(*ret_fd, 0, SEEK_DATA);
    *ret_first = first >= 0 ? (uint64_t)first : errno == ENXIO ? *ret_size : 0;
    return BH_OK;
}

static int make_source(struct bh_app *app, const char *id, int fd, uint64_t from, uint64_t end,
                       struct bh_source **ret_source)
{
    struct log_source *log = calloc(1, sizeof *log);
    if (!log)
        return BH_E_NOMEM;
    *log = (struct log_source){.source = {.read = read_log, .free = free_log},
                               .app = app,
                               .fd = fd,
                               .position = from,
                               .end = end};
    (void)snprintf(log->id, sizeof log->id, "%s", id);
    if (end == UINT64_MAX) {
        (void)uv_timer_init(&app->loop, &log->timer);
        log->timer.data = log;
        (void)uv_timer_start(&log->timer, on_follow, FOLLOW_MS, FOLLOW_MS);
        app->followers++;
    }
    *ret_source = &log->source;
    return BH_OK;
}

/* First byte and end of what is asked for; false when a range lies beyond the end. */
static bool choose(const struct bh_logs *logs, uint64_t size, uint64_t first, uint64_t *ret_from,
                   uint64_t *ret_end)
{
    *ret_from = logs->from;
    *ret_end = size;
    if (logs->range_suffix) {
        *ret_from = logs->range_last < size ? size - logs->range_last : 0;
    } else if (logs->range) {
        *ret_from = logs->range_first;
        if (logs->range_last != UINT64_MAX && logs->range_last < size)
            *ret_end = logs->range_last + 1;
    }
    if (logs->range && (*ret_from >= size || (logs->range_suffix && logs->range_last == 0)))
        return false;
    if (*ret_from > size)
        *ret_from = size;
    if (!logs->range && !logs->has_from && first > 0)
        *ret_from = first; /* nobody asked for the bytes that were cut */
    return true;
}

static void answer_open(struct bh_app *app, struct bh_call *call, const char *id, int fd,
                        uint64_t size, uint64_t first, const struct bh_logs *logs)
{
    struct bh_source *source = NULL;
    uint64_t from = 0;
    uint64_t end = 0;
    if (!choose(logs, size, first, &from, &end)) {
        (void)close(fd);
        bh_reply_header(call, "Content-Range", "bytes */%llu", (unsigned long long)size);
        bh_reply_refuse(call, BH_E_RANGE_NOT_SATISFIABLE, "The stream has %llu bytes.",
                        (unsigned long long)size);
        return;
    }
    if (from < first) {
        (void)close(fd);
        bh_reply_refuse(call, BH_E_LOG_CUT, "Bytes before %llu were cut. Ask with from=%llu.",
                        (unsigned long long)first, (unsigned long long)first);
        return;
    }
    bool follow = logs->follow && bh_jobs_find(app->jobs, id);
    int result = make_source(app, id, fd, from, follow ? UINT64_MAX : end, &source);
    if (result < 0) {
        (void)close(fd);
        bh_reply_error(call, result, NULL);
        return;
    }
    bh_reply_header(call, "X-Bulkhead-Log-Size", "%llu", (unsigned long long)size);
    bh_reply_header(call, "X-Bulkhead-Log-From", "%llu", (unsigned long long)from);
    bh_reply_header(call, "Accept-Ranges", "bytes");
    if (logs->range)
        bh_reply_header(call, "Content-Range", "bytes %llu-%llu/%llu", (unsigned long long)from,
                        (unsigned long long)end - 1, (unsigned long long)size);
    bh_reply_source(call, logs->range ? 206 : 200, BH_TYPE_TEXT, source,
                    follow ? -1 : (int64_t)(end - from));
}

void bh_log_answer(struct bh_app *app, struct bh_call *call, const char *id,
                   const struct bh_logs *logs)
{
    int fd = -1;
    uint64_t size = 0;
    uint64_t first = 0;
    if (logs->follow && bh_hub_streams(app->hub) + app->followers >=
                            bh_config_number(app->config, BH_PARAM_MAX_STREAMS)) {
        bh_reply_refuse(call, BH_E_STREAMS_FULL, "All streams are in use. Read without follow.");
        return;
    }
    int result = open_log(app, id, logs->stderr_stream, &fd, &size, &first);
    if (result == BH_E_NOT_FOUND)
        bh_reply_text(call, 200, ""); /* a job that never ran has no output */
    else if (result < 0)
        bh_reply_error(call, result, NULL);
    else
        answer_open(app, call, id, fd, size, first, logs);
}
