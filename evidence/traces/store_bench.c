/* Measures the trace store on a synthetic run: import into SQLite, timeline queries, live sets,
 * pickles, sizes. Prints one "name value" a line; store.py turns them into a result file.
 *
 *     store_bench FOLDER EVENTS LIVE     FOLDER: an existing directory on the disk to measure */
#include <malloc.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "server/import.h"
#include "server/store.h"
#include "server/trace.h"
#include "trace_maker.h"

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Of /proc/self/status, kilobytes. */
static long status_kb(const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    long value = -1;

    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) == 0)
            value = atol(line + strlen(name) + 1);
    }
    if (file)
        (void)fclose(file);
    return value;
}

static void reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        if (write(fd, "5", 1) != 1)
            (void)fprintf(stderr, "the peak cannot be reset\n");
        (void)close(fd);
    }
}

static void must(int result, const struct bh_diag *diag)
{
    if (result < 0) {
        (void)fprintf(stderr, "store_bench: %s: %s\n", bh_err_code(result), diag->detail);
        exit(1);
    }
}

static int count_bytes(void *user, const void *data, size_t length)
{
    (void)data;
    *(uint64_t *)user += length;
    return 0;
}

/* ---- a run ---- */

static void make(struct maker *maker, uint64_t events, uint32_t live)
{
    struct stat info;
    double began = seconds();

    maker_run(maker, MAKER_ID, 1);
    maker->live_wanted = live;
    maker_begin(maker);
    for (uint64_t made = 0; made < events; made += 100000) {
        uint64_t ns = maker->now_ns;
        maker_events(maker, events - made < 100000 ? events - made : 100000);
        if (maker->now_ns / 1000000000 != ns / 1000000000)
            maker_samples(maker, maker->active, maker->reserved);
    }
    maker_limit_crossed(maker, 1096847360);
    maker_outcome(maker);
    maker_flush(maker);
    maker_report(maker);
    (void)fstat(maker->events_fd, &info);
    printf("make_s %.3f\n", seconds() - began);
    printf("log_bytes_per_event %.3f\n", (double)info.st_size / (double)events);
    printf("segments %.0f\n", (double)info.st_size / 65536);
}

/* ---- import ---- */

static atomic_bool importing;

/* A reader beside the import: what "while serving" means. */
static void *serve(void *path)
{
    struct bh_diag diag = {0};
    struct bh_trace *trace;
    uint64_t queries = 0;

    must(bh_trace_open(path, &trace, &diag), &diag);
    while (atomic_load(&importing)) {
        struct timespec pause = {.tv_nsec = 20000000};
        uint64_t bytes = 0;
        (void)bh_trace_timeline(trace, MAKER_ID, BH_TRACE_OPEN_RANGE, 1000, count_bytes, &bytes,
                                &diag);
        queries++;
        (void)nanosleep(&pause, NULL);
    }
    bh_trace_close(trace);
    printf("served_queries %llu\n", (unsigned long long)queries);
    return NULL;
}

static void import_run(struct maker *maker, struct bh_store *store, uint64_t events)
{
    struct bh_reindex_result result;
    struct bh_import *import;
    struct bh_diag diag = {0};
    pthread_t reader;
    double began, cpu;
    char path[256];

    (void)snprintf(path, sizeof path, "%s", bh_store_path_peek(store));
    must(bh_import_open(path, &import, &diag), &diag);
    atomic_store(&importing, true);
    (void)pthread_create(&reader, NULL, serve, path);
    began = seconds();
    cpu = cpu_seconds();
    must(bh_reindex(import, maker->jobs_fd, NULL, NULL, NULL, &result, &diag), &diag);
    printf("import_s %.3f\n", seconds() - began);
    printf("import_cpu_s %.3f\n", cpu_seconds() - cpu);
    printf("import_events_per_s %.0f\n", (double)events / (seconds() - began));
    atomic_store(&importing, false);
    (void)pthread_join(reader, NULL);
    printf("import_rss_kb %ld\n", status_kb("VmHWM:"));
    bh_import_close(import);
}

/* ---- questions ---- */

static struct bh_trace_range random_range(struct maker *maker, int shift)
{
    int64_t span = (int64_t)((maker->now_ns - MAKER_MONO_NS) / 1000), width = span >> shift;
    int64_t room = span - width;
    struct bh_trace_range range = {MAKER_EPOCH_US, 0};

    if (room > 0)
        range.from_us +=
            (int64_t)(((uint64_t)maker_random(maker, 1u << 30) << 20) % (uint64_t)room);
    range.to_us = range.from_us + (width > 0 ? width : 1);
    return range;
}

static void ask_timelines(struct maker *maker, struct bh_trace *trace)
{
    struct bh_diag diag = {0};

    for (int i = 0; i < 240; i++) {
        struct bh_trace_range range = random_range(maker, i % 24);
        uint64_t bytes = 0;
        double began = seconds(), cpu = cpu_seconds();
        must(bh_trace_timeline(trace, MAKER_ID, range, 1000, count_bytes, &bytes, &diag), &diag);
        printf("timeline_ms %.3f\n", (seconds() - began) * 1e3);
        printf("timeline_cpu_ms %.3f\n", (cpu_seconds() - cpu) * 1e3);
    }
}

static void ask_live(struct maker *maker, struct bh_trace *trace)
{
    struct bh_diag diag = {0};

    for (int i = 0; i < 60; i++) {
        struct bh_trace_live_query query = {.at = BH_TRACE_AT_TIME};
        uint64_t bytes = 0;
        double began, cpu;
        query.at_us = random_range(maker, 40).from_us;
        query.by_primitive = i % 2;
        if (i % 10 == 9)
            query.at = i % 20 == 9 ? BH_TRACE_AT_PEAK : BH_TRACE_AT_END;
        began = seconds();
        cpu = cpu_seconds();
        must(bh_trace_live(trace, MAKER_ID, &query, count_bytes, &bytes, &diag), &diag);
        printf("live_ms %.3f\n", (seconds() - began) * 1e3);
        printf("live_cpu_ms %.3f\n", (cpu_seconds() - cpu) * 1e3);
    }
}

/* Growth between two instants: two live sets and their difference. */
static void ask_growth(struct maker *maker, struct bh_trace *trace)
{
    struct bh_diag diag = {0};

    for (int i = 0; i < 60; i++) {
        struct bh_trace_live_query query = {.at = BH_TRACE_AT_TIME, .since = true};
        uint64_t bytes = 0;
        double began, cpu;
        query.since_us = random_range(maker, 40).from_us;
        query.at_us = random_range(maker, 40).from_us;
        query.by_primitive = i % 2;
        began = seconds();
        cpu = cpu_seconds();
        must(bh_trace_live(trace, MAKER_ID, &query, count_bytes, &bytes, &diag), &diag);
        printf("growth_ms %.3f\n", (seconds() - began) * 1e3);
        printf("growth_cpu_ms %.3f\n", (cpu_seconds() - cpu) * 1e3);
    }
}

static void ask_pickle(struct bh_trace *trace, uint64_t entries)
{
    struct bh_diag diag = {0};

    for (int i = 0; i < 3; i++) {
        uint64_t bytes = 0;
        long before;
        double began, cpu;
        (void)malloc_trim(0); /* or memory that earlier questions left would hide the growth */
        reset_peak();
        before = status_kb("VmRSS:");
        began = seconds();
        cpu = cpu_seconds();
        must(bh_trace_pickle(trace, MAKER_ID, BH_TRACE_OPEN_RANGE, entries, count_bytes, &bytes,
                             &diag),
             &diag);
        printf("pickle_s %.3f\n", seconds() - began);
        printf("pickle_cpu_s %.3f\n", cpu_seconds() - cpu);
        printf("pickle_rss_growth_kb %ld\n", status_kb("VmHWM:") - before);
        printf("pickle_bytes %llu\n", (unsigned long long)bytes);
    }
}

static void print_sizes(const char *path, uint64_t events)
{
    static const char *const tables[] = {"segment", "level", "keyframe"};
    sqlite3 *handle;

    if (sqlite3_open_v2(path, &handle, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        exit(1);
    for (size_t i = 0; i < 3; i++) {
        char sql[96];
        sqlite3_stmt *statement;
        (void)snprintf(sql, sizeof sql, "SELECT count(*), sum(length(data)) FROM %s", tables[i]);
        if (sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) != SQLITE_OK ||
            sqlite3_step(statement) != SQLITE_ROW)
            exit(1);
        printf("%s_rows %lld\n", tables[i], (long long)sqlite3_column_int64(statement, 0));
        printf("%s_bytes_per_event %.3f\n", tables[i],
               (double)sqlite3_column_int64(statement, 1) / (double)events);
        sqlite3_finalize(statement);
    }
    (void)sqlite3_close(handle);
}

int main(int argc, char **argv)
{
    struct maker maker = {0};
    struct bh_store_start start;
    struct bh_store *store;
    struct bh_trace *trace;
    struct bh_diag diag = {0};
    uint64_t events;

    if (argc != 4) {
        (void)fprintf(stderr, "usage: store_bench FOLDER EVENTS LIVE\n");
        return 64;
    }
    events = strtoull(argv[2], NULL, 10);
    maker_state_in(&maker, argv[1]);
    make(&maker, events, (uint32_t)strtoul(argv[3], NULL, 10));
    must(bh_store_open(maker.state, false, &store, &start, &diag), &diag);
    import_run(&maker, store, events);
    must(bh_trace_open(bh_store_path_peek(store), &trace, &diag), &diag);
    ask_timelines(&maker, trace);
    ask_live(&maker, trace);
    ask_growth(&maker, trace);
    bh_trace_close(trace);
    must(bh_trace_open(bh_store_path_peek(store), &trace, &diag), &diag);
    ask_pickle(trace, 1000000);
    bh_trace_close(trace);
    print_sizes(bh_store_path_peek(store), events);
    printf("database_bytes_per_event %.3f\n", (double)bh_store_bytes(store) / (double)events);
    bh_store_close(store);
    maker_run_close(&maker);
    maker_done(&maker);
    return 0;
}
