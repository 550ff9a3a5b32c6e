#include "api/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json_out.h"

void bh_problem_add(struct bh_problem *problem, int error, const char *pointer, const char *format,
                    ...)
{
    if (problem->error == 0)
        problem->error = error;
    else if (problem->error != error)
        problem->error = BH_E_INVALID_VALUE;
    if (problem->count == BH_PROBLEM_MAX_ITEMS)
        return;
    struct bh_problem_item *item = &problem->items[problem->count++];
    item->error = error;
    (void)snprintf(item->pointer, sizeof item->pointer, "%s", pointer);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(item->detail, sizeof item->detail, format, args);
    va_end(args);
}

void bh_problem_set(struct bh_problem *problem, int error, const char *format, ...)
{
    problem->error = error;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(problem->detail, sizeof problem->detail, format, args);
    va_end(args);
}

int bh_problem_public_error(int error)
{
    int status = bh_err_http(error);
    return status == 500 || status == 0 ? BH_E_INTERNAL : error;
}

static const char *default_detail(const struct bh_problem *problem, int error)
{
    if (error == BH_E_INTERNAL)
        return "Something went wrong in the server; its log says more. Try again.";
    if (problem->detail[0])
        return problem->detail;
    if (problem->count)
        return "Correct the members listed in errors and send the request again.";
    return bh_err_title(error);
}

static void write_items(struct bh_json *json, const struct bh_problem *problem)
{
    if (problem->count == 0)
        return;
    bh_json_array(json, "errors");
    for (unsigned i = 0; i < problem->count; i++) {
        bh_json_object(json, NULL);
        bh_json_string(json, "pointer", problem->items[i].pointer);
        bh_json_string(json, "detail", problem->items[i].detail);
        bh_json_end(json);
    }
    bh_json_end(json);
}

void bh_problem_write(const struct bh_problem *problem, const char *instance,
                      struct bh_bytes *ret_body)
{
    int error = bh_problem_public_error(problem->error);
    char text[320];
    struct bh_json json;
    bh_json_begin(&json, ret_body, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    (void)snprintf(text, sizeof text, "urn:bulkhead:error:%s", bh_err_code(error));
    bh_json_string(&json, "type", text);
    bh_json_string(&json, "title", bh_err_title(error));
    bh_json_u64(&json, "status", (uint64_t)bh_err_http(error));
    bh_json_string(&json, "detail", default_detail(problem, error));
    bh_json_string(&json, "instance", instance);
    bh_json_string(&json, "code", bh_err_code(error));
    write_items(&json, problem);
    if (problem->job_id) {
        bh_json_string(&json, "job_id", problem->job_id);
        (void)snprintf(text, sizeof text, "/v1/jobs/%s", problem->job_id);
        if (problem->job_url)
            bh_json_string(&json, "job_url", text);
    }
    if (problem->has_last_sequence)
        bh_json_u64(&json, "last_seq", problem->last_sequence);
    bh_json_end(&json);
    bh_json_finish(&json);
}
