#include "server/log_notice.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "core/base/json_out.h"
#include "server/jobs.h"

static uint64_t size_of(int dirfd, const char *name)
{
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_size : 0;
}

static void look(struct bh_job *job)
{
    struct bh_bytes text = {0};
    struct bh_json json;
    uint64_t out = size_of(job->dirfd, "out.log");
    uint64_t err = size_of(job->dirfd, "err.log");
    if (out == job->out_bytes && err == job->err_bytes)
        return;
    job->out_bytes = out;
    job->err_bytes = err;
    bh_json_begin(&json, &text, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_string(&json, "job_id", job->id);
    bh_json_u64(&json, "stdout_bytes", out);
    bh_json_u64(&json, "stderr_bytes", err);
    bh_json_end(&json);
    bh_json_finish(&json);
    if (!text.failed)
        bh_hub_publish(job->app->hub, BH_EVENT_LOG, job->id, 0, text.data, text.length);
    bh_bytes_done(&text);
}

void bh_log_notice(struct bh_app *app)
{
    if (bh_hub_streams(app->hub) == 0)
        return;
    for (struct bh_job *job = bh_jobs_first(app->jobs); job; job = job->next) {
        if (job->dirfd >= 0 && !job->over)
            look(job);
    }
}
