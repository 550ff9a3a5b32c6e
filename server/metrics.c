#include "server/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "api/router.h"
#include "server/jobs.h"

#define MAX_SERIES 512

struct series {
    const struct bh_route *route; /* static */
    enum bh_method method;
    int status;
    uint64_t count;
};

struct bh_metrics {
    struct series series[MAX_SERIES];
    unsigned count;
};

enum metric {
#define BH_METRIC(name, text, type, help) METRIC_##name,
#include "server/metrics.def"
#undef BH_METRIC
};

enum type { TYPE_gauge, TYPE_counter };

static const struct family {
    const char *name;
    enum type type;
    const char *help;
} families[] = {
#define BH_METRIC(name, text, type, help) {text, TYPE_##type, help},
#include "server/metrics.def"
#undef BH_METRIC
};

struct writer {
    struct bh_bytes *out;
    bool openmetrics;
};

int bh_metrics_new(struct bh_metrics **ret_metrics)
{
    *ret_metrics = calloc(1, sizeof **ret_metrics);
    return *ret_metrics ? BH_OK : BH_E_NOMEM;
}

void bh_metrics_free(struct bh_metrics *metrics)
{
    free(metrics);
}

void bh_metrics_count(struct bh_metrics *metrics, const struct bh_route *route,
                      enum bh_method method, int status)
{
    for (unsigned i = 0; i < metrics->count; i++) {
        struct series *series = &metrics->series[i];
        if (series->route == route && series->method == method && series->status == status) {
            series->count++;
            return;
        }
    }
    if (metrics->count < MAX_SERIES)
        metrics->series[metrics->count++] = (struct series){route, method, status, 1};
}

static void family(struct writer *writer, enum metric metric)
{
    const struct family *at = &families[metric];
    size_t length = strlen(at->name);
    /* OpenMetrics names the family of a counter without its _total */
    if (writer->openmetrics && at->type == TYPE_counter)
        length -= strlen("_total");
    bh_bytes_printf(writer->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)length, at->name,
                    at->help, (int)length, at->name,
                    at->type == TYPE_counter ? "counter" : "gauge");
}

static void label(struct bh_bytes *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            bh_bytes_append(out, "\\", 1);
        bh_bytes_append(out, text, 1);
    }
}

static void job_value(struct writer *writer, enum metric metric, const struct bh_job *job,
                      uint64_t value)
{
    const char *name = job->spec->name ? job->spec->name : job->id;
    bh_bytes_printf(writer->out, "%s{job=\"%s\",name=\"", families[metric].name, job->id);
    label(writer->out, name);
    bh_bytes_printf(writer->out, "\"} %llu\n", (unsigned long long)value);
}

static bool value_of(const struct bh_job_view *view, enum metric metric, uint64_t *ret_value)
{
    struct bh_observed observed = {BH_VALUE_AVAILABLE, 0};
    switch (metric) {
    case METRIC_CHARGE:
        observed = view->charge;
        break;
    case METRIC_PEAK:
        observed = view->peak_charge;
        break;
    case METRIC_LIMIT:
        observed.value = view->limit_bytes;
        if (!view->limit_bytes)
            return false;
        break;
    case METRIC_ACTIVE:
        observed = view->active;
        break;
    case METRIC_RESERVED:
        observed = view->reserved;
        break;
    case METRIC_EVENTS:
        observed.value = view->events;
        break;
    case METRIC_LOST:
        observed.value = view->lost;
        break;
    case METRIC_JOBS:
    case METRIC_REQUESTS:
    case METRIC_REFUSED:
    case METRIC_STREAMS:
    case METRIC_DATABASE:
    case METRIC_STARTED:
        return false;
    }
    *ret_value = observed.value;
    return observed.status == BH_VALUE_AVAILABLE;
}

static void write_jobs(struct bh_app *app, struct writer *writer)
{
    uint64_t counts[6] = {0};
    family(writer, METRIC_JOBS);
    if (bh_store_job_counts(app->store, counts) < 0)
        memset(counts, 0, sizeof counts);
    /* the registry knows the states of what is not over better than the rows do */
    for (int i = BH_JOB_STARTING; i <= BH_JOB_STOPPING; i++)
        counts[i] = 0;
    for (struct bh_job *job = bh_jobs_first(app->jobs); job; job = job->next) {
        if ((int)job->state <= BH_JOB_STOPPING)
            counts[job->state]++;
    }
    for (int i = BH_JOB_STARTING; i <= BH_JOB_FAILED_TO_START; i++)
        bh_bytes_printf(writer->out, "bulkhead_jobs{state=\"%s\"} %llu\n", bh_job_state_text(i),
                        (unsigned long long)counts[i]);
    for (int metric = METRIC_CHARGE; metric <= METRIC_LOST; metric++) {
        family(writer, (enum metric)metric);
        for (struct bh_job *job = bh_jobs_first(app->jobs); job; job = job->next) {
            struct bh_job_view view;
            uint64_t value = 0;
            bh_jobs_view(job, &view);
            if (value_of(&view, (enum metric)metric, &value))
                job_value(writer, (enum metric)metric, job, value);
        }
    }
}

static void write_requests(const struct bh_metrics *metrics, struct writer *writer)
{
    family(writer, METRIC_REQUESTS);
    for (unsigned i = 0; i < metrics->count; i++) {
        const struct series *series = &metrics->series[i];
        bh_bytes_printf(
            writer->out, "%s{route=\"%s\",method=\"%s\",status=\"%d\"} %llu\n",
            families[METRIC_REQUESTS].name, series->route ? series->route->pattern : "other",
            bh_method_text(series->method), series->status, (unsigned long long)series->count);
    }
}

static void write_one(struct writer *writer, enum metric metric, uint64_t value)
{
    family(writer, metric);
    bh_bytes_printf(writer->out, "%s %llu\n", families[metric].name, (unsigned long long)value);
}

void bh_metrics_write(struct bh_app *app, bool openmetrics, struct bh_bytes *ret_body)
{
    struct writer writer = {ret_body, openmetrics};
    write_jobs(app, &writer);
    write_requests(app->metrics, &writer);
    write_one(&writer, METRIC_REFUSED, app->refused_total);
    write_one(&writer, METRIC_STREAMS, bh_hub_streams(app->hub));
    write_one(&writer, METRIC_DATABASE, bh_store_bytes(app->store));
    write_one(&writer, METRIC_STARTED, (uint64_t)app->started_at.us / 1000000u);
    if (openmetrics)
        bh_bytes_append_text(ret_body, "# EOF\n");
}
