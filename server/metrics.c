#include "server/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/router.h"
#include "core/base/text.h"
#include "server/jobs.h"

#define MAX_SERIES  512
#define MAX_SIGNALS 65
#define MAX_OVER    64
#define OVER_US     (10ll * 60 * 1000000)
#define BUCKETS     7

struct series {
    const struct bh_route *route; /* static */
    enum bh_method method;
    int status;
    uint64_t count;
};

/* Upper bounds of the latency histogram: ns, and as its label. */
static const uint64_t bucket_ns[BUCKETS] = {10000,   50000,    100000,   500000,
                                            1000000, 10000000, 100000000};
static const char *const bucket_text[BUCKETS] = {"1e-05", "5e-05", "0.0001", "0.0005",
                                                 "0.001", "0.01",  "0.1"};

struct over {
    char id[BH_JOB_ID_SIZE], name[65];
    struct bh_wall at;
    struct bh_job_view view; /* values only: its pointers are not kept */
};

struct bh_metrics {
    struct series series[MAX_SERIES];
    unsigned count;
    uint64_t signals[MAX_SIGNALS];
    uint64_t buckets[BUCKETS + 1]; /* not cumulative; the last one is above all bounds */
    uint64_t latency_ns, cpu_ns;
    struct over over[MAX_OVER]; /* a ring: the oldest goes */
    unsigned next_over;
};

enum metric {
#define BH_METRIC(name, text, type, help) METRIC_##name,
#include "server/metrics.def"
#undef BH_METRIC
};

enum type { TYPE_gauge, TYPE_counter, TYPE_histogram };

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
    static const char *const types[] = {"gauge", "counter", "histogram"};
    bh_bytes_printf(writer->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)length, at->name,
                    at->help, (int)length, at->name, types[at->type]);
}

static void label(struct bh_bytes *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            bh_bytes_append(out, "\\", 1);
        bh_bytes_append(out, text, 1);
    }
}

static void job_value(struct writer *writer, enum metric metric, const char *id, const char *name,
                      uint64_t value)
{
    bh_bytes_printf(writer->out, "%s{job=\"%s\",name=\"", families[metric].name, id);
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
    case METRIC_SIGNALS:
    case METRIC_LATENCY:
    case METRIC_CPU:
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

static void write_family(struct bh_app *app, struct writer *writer, enum metric metric)
{
    const struct bh_metrics *metrics = app->metrics;
    struct bh_wall now = bh_clock_wall();
    uint64_t value = 0;
    family(writer, metric);
    for (struct bh_job *job = bh_jobs_first(app->jobs); job; job = job->next) {
        struct bh_job_view view;
        bh_jobs_view(job, &view);
        if (value_of(&view, metric, &value))
            job_value(writer, metric, job->id, job->spec->name ? job->spec->name : job->id, value);
    }
    for (unsigned i = 0; i < MAX_OVER; i++) {
        const struct over *over = &metrics->over[i];
        if (over->at.us && now.us - over->at.us < OVER_US && value_of(&over->view, metric, &value))
            job_value(writer, metric, over->id, over->name, value);
    }
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
    for (int metric = METRIC_CHARGE; metric <= METRIC_LOST; metric++)
        write_family(app, writer, (enum metric)metric);
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

static void write_seconds(struct bh_bytes *out, const char *name, const char *labels, uint64_t ns)
{
    bh_bytes_printf(out, "%s%s %llu.%09llu\n", name, labels, (unsigned long long)(ns / BH_NS_PER_S),
                    (unsigned long long)(ns % BH_NS_PER_S));
}

static void write_supervision(const struct bh_metrics *metrics, struct writer *writer)
{
    uint64_t sum = 0;
    char name[16];
    family(writer, METRIC_SIGNALS);
    for (int i = 1; i < MAX_SIGNALS; i++) {
        if (metrics->signals[i])
            bh_bytes_printf(writer->out, "%s{signal=\"%s\"} %llu\n", families[METRIC_SIGNALS].name,
                            bh_text_signal_name(i, name, sizeof name),
                            (unsigned long long)metrics->signals[i]);
    }
    family(writer, METRIC_LATENCY);
    for (unsigned i = 0; i <= BUCKETS; i++) {
        sum += metrics->buckets[i];
        bh_bytes_printf(writer->out, "%s_bucket{le=\"%s\"} %llu\n", families[METRIC_LATENCY].name,
                        i < BUCKETS ? bucket_text[i] : "+Inf", (unsigned long long)sum);
    }
    write_seconds(writer->out, families[METRIC_LATENCY].name, "_sum", metrics->latency_ns);
    bh_bytes_printf(writer->out, "%s_count %llu\n", families[METRIC_LATENCY].name,
                    (unsigned long long)sum);
    family(writer, METRIC_CPU);
    write_seconds(writer->out, families[METRIC_CPU].name, "", metrics->cpu_ns);
}

void bh_metrics_record(struct bh_metrics *metrics, const struct bh_record *record)
{
    if (record->kind == BH_RECORD_OUTCOME)
        metrics->cpu_ns += record->outcome.cpu_ns;
    if (record->kind != BH_RECORD_SIGNAL || record->signal.signal < 1 ||
        record->signal.signal >= MAX_SIGNALS)
        return;
    uint64_t ns = record->signal.decision_to_signal_ns;
    unsigned bucket = 0;
    while (bucket < BUCKETS && ns > bucket_ns[bucket])
        bucket++;
    metrics->signals[record->signal.signal]++;
    metrics->buckets[bucket]++;
    metrics->latency_ns += ns;
}

void bh_metrics_over(struct bh_metrics *metrics, const struct bh_job_view *view)
{
    struct over *over = &metrics->over[metrics->next_over++ % MAX_OVER];
    const char *name = view->spec->name ? view->spec->name : view->id;
    *over = (struct over){.at = bh_clock_wall(), .view = *view};
    (void)snprintf(over->id, sizeof over->id, "%s", view->id);
    (void)snprintf(over->name, sizeof over->name, "%s", name);
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
    write_supervision(app->metrics, &writer);
    write_requests(app->metrics, &writer);
    write_one(&writer, METRIC_REFUSED, app->refused_total);
    write_one(&writer, METRIC_STREAMS, bh_hub_streams(app->hub));
    write_one(&writer, METRIC_DATABASE, bh_store_bytes(app->store));
    write_one(&writer, METRIC_STARTED, (uint64_t)app->started_at.us / 1000000u);
    if (openmetrics)
        bh_bytes_append_text(ret_body, "# EOF\n");
}
