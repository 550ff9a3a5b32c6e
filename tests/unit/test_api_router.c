/* Router, query fields, problems, and the example answers of openapi. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "api/problem.h"
#include "api/query.h"
#include "api/router.h"

static int match(enum bh_method method, const char *path, const char **ret_pattern, char *ret_id,
                 char *ret_allow)
{
    const struct bh_route *route = NULL;
    int result = bh_router_match(method, path, &route, ret_id, ret_allow, 64);
    *ret_pattern = route ? route->pattern : "";
    return result;
}

static void finds_routes_and_aliases(void **state)
{
    char id[BH_API_ID_SIZE] = "";
    char allow[64];
    const char *pattern;
    (void)state;
    assert_int_equal(match(BH_METHOD_POST, "/v1/jobs", &pattern, id, allow), 0);
    assert_int_equal(match(BH_METHOD_POST, "/jobs", &pattern, id, allow), 0);
    assert_string_equal(pattern, "/v1/jobs");
    assert_int_equal(match(BH_METHOD_GET, "/jobs/leaky/memory.pickle", &pattern, id, allow), 0);
    assert_string_equal(id, "leaky");
    assert_string_equal(pattern, "/v1/jobs/{id}/memory.pickle");
    assert_int_equal(match(BH_METHOD_GET, "/v1/jobs/x/", &pattern, id, allow), BH_E_NOT_FOUND);
    assert_int_equal(match(BH_METHOD_GET, "/v1/jobs//report", &pattern, id, allow), BH_E_NOT_FOUND);
    assert_int_equal(match(BH_METHOD_GET, "/jobsx", &pattern, id, allow), BH_E_NOT_FOUND);
    assert_int_equal(match(BH_METHOD_GET, "/host", &pattern, id, allow), BH_E_NOT_FOUND);
    assert_int_equal(match(BH_METHOD_DELETE, "/v1/jobs", &pattern, id, allow), BH_E_METHOD);
    assert_string_equal(allow, "POST, GET, HEAD");
    assert_int_equal(match(BH_METHOD_OTHER, "/livez", &pattern, id, allow), BH_E_METHOD);
}

static void ids_have_a_bound(void **state)
{
    char path[200] = "/v1/jobs/";
    char id[BH_API_ID_SIZE];
    char allow[64];
    const char *pattern;
    (void)state;
    memset(path + 9, 'a', 64);
    path[73] = '\0';
    assert_int_equal(match(BH_METHOD_GET, path, &pattern, id, allow), 0);
    assert_int_equal(strlen(id), 64);
    memset(path + 9, 'a', 65);
    path[74] = '\0';
    assert_int_equal(match(BH_METHOD_GET, path, &pattern, id, allow), BH_E_NOT_FOUND);
}

static void parses_queries_strictly(void **state)
{
    static const char *const known[] = {"a", "limit", NULL};
    struct bh_call call = {0};
    struct bh_problem problem = {0};
    char good[] = "a=%7e+b&limit=12&&";
    uint64_t limit = 0;
    (void)state;
    assert_int_equal(bh_query_parse(&call, good), 0);
    bh_query_known(&call, known, &problem);
    assert_int_equal(problem.error, 0);
    assert_string_equal(bh_query_text(&call, "a"), "~ b");
    assert_true(bh_query_u64(&call, "limit", 1, 100, &limit, &problem));
    assert_int_equal(limit, 12);
    assert_false(bh_query_u64(&call, "limit", 20, 100, &limit, &problem));
    assert_int_equal(problem.error, BH_E_BAD_QUERY);

    char twice[] = "a=1&a=2";
    problem = (struct bh_problem){0};
    assert_int_equal(bh_query_parse(&call, twice), 0);
    bh_query_known(&call, known, &problem);
    assert_int_equal(problem.error, BH_E_BAD_QUERY);

    char unknown[] = "b=1";
    problem = (struct bh_problem){0};
    assert_int_equal(bh_query_parse(&call, unknown), 0);
    bh_query_known(&call, known, &problem);
    assert_string_equal(problem.items[0].pointer, "?b");

    static const char *const bad[] = {"a=%", "a=%0", "a=%zz", "a=%00", "a=%ff", "%c3=1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%s", bad[i]);
        assert_int_equal(bh_query_parse(&call, text), BH_E_BAD_QUERY);
    }
    char many[256] = "";
    for (int i = 0; i < 17; i++)
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), "x%d=1&", i);
    assert_int_equal(bh_query_parse(&call, many), BH_E_BAD_QUERY);
}

static void internal_errors_show_nothing(void **state)
{
    struct bh_problem problem = {0};
    struct bh_bytes body = {0};
    (void)state;
    bh_problem_set(&problem, BH_E_IO, "/secret/path is broken");
    bh_problem_write(&problem, "/v1/jobs", &body);
    assert_null(strstr((char *)body.data, "secret"));
    assert_non_null(strstr((char *)body.data, "\"code\":\"internal\""));
    assert_non_null(strstr((char *)body.data, "\"status\":500"));
    bh_bytes_done(&body);
}

static void every_error_has_a_public_face(void **state)
{
    (void)state;
    for (int number = 1; number < 100; number++) {
        int error = -number;
        if (strcmp(bh_err_code(error), "unknown") == 0)
            continue;
        struct bh_problem problem = {.error = error};
        struct bh_bytes body = {0};
        bh_problem_write(&problem, "/", &body);
        int status = bh_err_http(bh_problem_public_error(error));
        assert_in_range(status, 400, 599);
        assert_non_null(strstr((char *)body.data, "\"type\":\"urn:bulkhead:error:"));
        bh_bytes_done(&body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_routes_and_aliases),
        cmocka_unit_test(ids_have_a_bound),
        cmocka_unit_test(parses_queries_strictly),
        cmocka_unit_test(internal_errors_show_nothing),
        cmocka_unit_test(every_error_has_a_public_face),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
