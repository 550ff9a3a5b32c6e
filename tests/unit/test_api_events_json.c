/* Memory events from clients: arrays, lines, and where a mistake is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "api/events_json.h"

#define ENTRY                                                                                      \
    "{\"addr\":4096,\"size\":100,\"timestamp_us\":7,\"elapsed_us\":1,\"action\":\"AllocNew\","     \
    "\"primitive_name\":null,\"stream\":-1,\"traceback\":[[\"a.py\",\"f\",3]]}"

struct seen {
    int count, refuse_at;
    uint64_t address;
    size_t frames;
    bool primitive;
};

static int visit(void *user, const struct bh_event_entry *entry, struct bh_diag *diag)
{
    struct seen *seen = user;
    if (seen->count == seen->refuse_at)
        return bh_err_set(diag, BH_E_SEQUENCE_BACK, "seq", "too low");
    seen->count++;
    seen->address = entry->address;
    seen->frames = entry->frame_count;
    seen->primitive = entry->primitive != NULL;
    return BH_OK;
}

static int64_t read_text(const char *text, enum bh_events_form form, struct seen *seen,
                         struct bh_problem *problem)
{
    *problem = (struct bh_problem){0};
    *seen = (struct seen){.refuse_at = -1};
    return bh_events_read(text, strlen(text), form, visit, seen, problem);
}

static void reads_both_forms(void **state)
{
    struct seen seen;
    struct bh_problem problem;
    (void)state;
    assert_int_equal(read_text("[]", BH_EVENTS_ARRAY, &seen, &problem), 0);
    assert_int_equal(read_text(" [ " ENTRY " , " ENTRY " ] ", BH_EVENTS_ARRAY, &seen, &problem), 2);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.address, 4096);
    assert_int_equal(seen.frames, 1);
    assert_false(seen.primitive);
    assert_int_equal(read_text(ENTRY "\n\n" ENTRY "\r\n", BH_EVENTS_LINES, &seen, &problem), 2);
    assert_int_equal(read_text("", BH_EVENTS_LINES, &seen, &problem), 0);
    assert_int_equal(read_text("[" ENTRY "]", BH_EVENTS_EITHER, &seen, &problem), 1);
    assert_int_equal(read_text(ENTRY "\n", BH_EVENTS_EITHER, &seen, &problem), 1);
}

struct refusal {
    const char *text;
    enum bh_events_form form;
    int error;
    const char *pointer;
};

static const struct refusal refusals[] = {
    {"{}", BH_EVENTS_ARRAY, BH_E_SYNTAX, NULL},
    {"[", BH_EVENTS_ARRAY, BH_E_SYNTAX, "/0"},
    {"[" ENTRY, BH_EVENTS_ARRAY, BH_E_SYNTAX, "/1"},
    {"[" ENTRY ",", BH_EVENTS_ARRAY, BH_E_SYNTAX, "/1"},
    {"[" ENTRY ",]", BH_EVENTS_ARRAY, BH_E_SYNTAX, "/1"},
    {"[" ENTRY " " ENTRY "]", BH_EVENTS_ARRAY, BH_E_SYNTAX, "/1"},
    {"[" ENTRY "]x", BH_EVENTS_ARRAY, BH_E_SYNTAX, "/1"},
    {"[1]", BH_EVENTS_ARRAY, BH_E_INVALID_VALUE, "/0"},
    {ENTRY "\n{\"addr\":1}\n", BH_EVENTS_LINES, BH_E_MISSING_MEMBER, "/1/action"},
    {"[{\"addr\":-1,\"size\":1,\"timestamp_us\":1,\"action\":\"x\"}]", BH_EVENTS_ARRAY,
     BH_E_INVALID_VALUE, "/0/addr"},
    {"[{\"adr\":1,\"addr\":1,\"size\":1,\"timestamp_us\":1,\"action\":\"x\"}]", BH_EVENTS_ARRAY,
     BH_E_UNKNOWN_MEMBER, "/0/adr"},
    {"[{\"addr\":1,\"size\":1,\"timestamp_us\":1,\"action\":\"x\",\"traceback\":[[1,2,3]]}]",
     BH_EVENTS_ARRAY, BH_E_INVALID_VALUE, "/0/traceback"},
    {"[{\"addr\":1,\"size\":1,\"timestamp_us\":1,\"action\":\"x\",\"stream\":-2}]", BH_EVENTS_ARRAY,
     BH_E_INVALID_VALUE, "/0/stream"},
    {"[{\"addr\":9007199254740992,\"size\":1,\"timestamp_us\":1,\"action\":\"x\"}]",
     BH_EVENTS_ARRAY, BH_E_INVALID_VALUE, "/0/addr"},
};

static void refuses_with_pointer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *want = &refusals[i];
        struct seen seen;
        struct bh_problem problem;
        int64_t result = read_text(want->text, want->form, &seen, &problem);
        if (result != want->error ||
            (want->pointer &&
             (problem.count == 0 || strcmp(problem.items[0].pointer, want->pointer))))
            fail_msg("%s: %s at %s", want->text, result < 0 ? bh_err_code((int)result) : "taken",
                     problem.count ? problem.items[0].pointer : "(none)");
    }
}

static void the_visitor_can_refuse(void **state)
{
    struct seen seen = {.refuse_at = 1};
    struct bh_problem problem = {0};
    (void)state;
    static const char text[] = "[" ENTRY "," ENTRY "]";
    assert_int_equal(bh_events_read(text, sizeof text - 1, BH_EVENTS_ARRAY, visit, &seen, &problem),
                     BH_E_SEQUENCE_BACK);
    assert_string_equal(problem.items[0].pointer, "/1/seq");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_both_forms),
        cmocka_unit_test(refuses_with_pointer),
        cmocka_unit_test(the_visitor_can_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
