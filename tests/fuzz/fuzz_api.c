/* libFuzzer: what a client may send. The first byte chooses the reader: the body of POST /v1/jobs,
 * memory events in both forms, PATCH limits, a report, a supervisor's verdict, a query. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/events_json.h"
#include "api/job_json.h"
#include "api/query.h"
#include "api/report_json.h"
#include "api/router.h"
#include "api/verdict_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int visit(void *user, const struct bh_event_entry *entry, struct bh_diag *diag)
{
    (void)diag;
    *(uint64_t *)user += entry->size_bytes + entry->frame_count;
    return BH_OK;
}

static void read_job(const char *text, size_t length)
{
    struct bh_launch_request first;
    struct bh_launch_request second;
    struct bh_problem problem = {0};
    struct bh_bytes body = {0};
    if (bh_job_json_read(text, length, &first, &problem) < 0) {
        bh_problem_write(&problem, "/v1/jobs", &body);
        bh_bytes_done(&body);
        return;
    }
    /* what was taken is written as a body that is taken again, and the same */
    if (!first.spec.external) {
        bh_job_json_write(&first.spec, &body);
        if (bh_job_json_read_over(&body, "", 0, &second, &problem) < 0 ||
            second.spec.limit_bytes != first.spec.limit_bytes ||
            second.spec.argc != first.spec.argc)
            abort();
        bh_launch_done(&second);
    }
    bh_bytes_done(&body);
    bh_launch_done(&first);
}

static void read_query(const char *text, size_t length)
{
    static const char *const known[] = {"a", NULL};
    struct bh_call call = {0};
    struct bh_problem problem = {0};
    const struct bh_route *route = NULL;
    char id[BH_API_ID_SIZE];
    char allow[64];
    char *copy = malloc(length + 1);
    if (!copy)
        return;
    memcpy(copy, text, length);
    copy[length] = '\0';
    (void)bh_router_match(BH_METHOD_GET, copy, &route, id, allow, sizeof allow);
    if (bh_query_parse(&call, copy) >= 0)
        bh_query_known(&call, known, &problem);
    free(copy);
}

static void read_report(const char *text, size_t length)
{
    struct bh_report_facts facts;
    struct bh_problem problem = {0};
    struct bh_bytes left = {0};
    struct bh_bytes merged = {0};
    bh_bytes_append(&left, text, length);
    (void)bh_report_read_facts(text, length, "0mhq2v9k3dx7c1p5n8tb", &facts, &problem);
    (void)bh_report_merge(&left, &left, &merged);
    bh_bytes_done(&left);
    bh_bytes_done(&merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;
    struct bh_problem problem = {0};
    struct bh_command command = {0};
    struct bh_diag diag = {0};
    uint64_t sum = 0;
    if (size == 0)
        return 0;
    size--;
    switch (data[0] % 7) {
    case 0:
        read_job(text, size);
        break;
    case 1:
        (void)bh_events_read(text, size, BH_EVENTS_ARRAY, visit, &sum, &problem);
        break;
    case 2:
        (void)bh_events_read(text, size, BH_EVENTS_LINES, visit, &sum, &problem);
        break;
    case 3:
        (void)bh_limits_json_read(text, size, &command, &problem);
        break;
    case 4:
        read_report(text, size);
        break;
    case 5:
        (void)bh_verdict_read(text, size, &diag);
        break;
    default:
        read_query(text, size);
        break;
    }
    return 0;
}
