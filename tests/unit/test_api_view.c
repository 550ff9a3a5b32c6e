/* Answers have the shape of openapi/examples: the same members, in values that this test gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api/report_json.h"
#include "api/verdict_json.h"
#include "api/view_json.h"
#include "core/model/policy.h"

static json_t *example(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, BH_SOURCE_DIR "/openapi/examples/%s", name);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

static json_t *parse(struct bh_bytes *body)
{
    json_t *root = json_loadb((char *)body->data, body->length, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    bh_bytes_done(body);
    return root;
}

static void assert_equal(json_t *got, json_t *want)
{
    if (!json_equal(got, want)) {
        char *left = json_dumps(got, JSON_SORT_KEYS | JSON_INDENT(1));
        char *right = json_dumps(want, JSON_SORT_KEYS | JSON_INDENT(1));
        fail_msg("got %s\nwant %s", left, right);
    }
    json_decref(got);
    json_decref(want);
}

static const char *const argv[] = {"/usr/bin/python3", "leaky.py", "--step", "24MiB"};
static const struct bh_text_pair labels[] = {{"team", "vision"}};
static const struct bh_text_pair env[] = {{"HF_TOKEN", "hf_secret"}};

static struct bh_job_spec make_spec(void)
{
    struct bh_job_spec spec;
    bh_job_spec_init(&spec);
    spec.name = "leaky";
    spec.argv = argv;
    spec.argc = 4;
    spec.cwd = "/home/ada/work";
    spec.env = env;
    spec.env_count = 1;
    spec.labels = labels;
    spec.label_count = 1;
    spec.mode = BH_MODE_ENFORCE;
    spec.limit_bytes = 1073741824;
    spec.record = true;
    spec.stacks = BH_STACKS_PYTHON;
    assert_int_equal(bh_job_spec_resolve(&spec, NULL), 0);
    return spec;
}

static struct bh_job_view make_view(const struct bh_job_spec *spec)
{
    return (struct bh_job_view){
        .spec = spec,
        .id = "0mhq2v9k3dx7c1p5n8tb",
        .state = BH_JOB_RUNNING,
        .policy_state = BH_POLICY_STATE_NORMAL,
        .mode = BH_MODE_ENFORCE,
        .boundary = BH_BOUNDARY_SAMPLED,
        .created_at = {1796002200085000},
        .started_at = {1796002200120000},
        .anchor = {{86400500000000}, {1796002200120000}},
        .root_pid = 4121,
        .members = 1,
        .limit_bytes = spec->limit_bytes,
        .warning_bytes = spec->warning_bytes,
        .recovery_bytes = spec->recovery_bytes,
        .emergency_bytes = spec->emergency_bytes,
        .limits_revision = 1,
        .charge = {BH_VALUE_AVAILABLE, 518033408},
        .peak_charge = {BH_VALUE_AVAILABLE, 518033408},
        .peak_at = {1796002205120000},
        .active = {BH_VALUE_AVAILABLE, 478150656},
        .reserved = {BH_VALUE_AVAILABLE, 486539264},
        .recorder = BH_RECORDER_ATTACHED,
        .events = 58,
        .event_sequence = 9,
        .exit_code = -1,
    };
}

static void job_running(void **state)
{
    struct bh_job_spec spec = make_spec();
    struct bh_job_view view = make_view(&spec);
    struct bh_bytes body = {0};
    (void)state;
    bh_view_job_document(&view, &body);
    assert_equal(parse(&body), example("job_running.json"));
}

static void job_stopping_names_who_is_waited_for(void **state)
{
    struct bh_job_spec spec = make_spec();
    struct bh_job_view view = make_view(&spec);
    const struct bh_view_process waiting[] = {{4121, "python3"}, {4140, "tokenizer"}};
    struct bh_bytes body = {0};
    (void)state;
    view.state = BH_JOB_STOPPING;
    view.policy_state = BH_POLICY_STATE_TERMINATING;
    view.members = 2;
    view.waiting = waiting;
    view.waiting_count = 2;
    json_t *want = example("job_stopping.json");
    view.event_sequence = (uint64_t)json_integer_value(json_object_get(want, "event_sequence"));
    bh_view_job_document(&view, &body);
    assert_equal(parse(&body), want);
}

static void job_finished(void **state)
{
    struct bh_job_spec spec = make_spec();
    struct bh_job_view view = make_view(&spec);
    struct bh_bytes body = {0};
    (void)state;
    view.state = BH_JOB_FINISHED;
    view.policy_state = BH_POLICY_STATE_EXITED;
    view.root_pid = 0;
    view.members = 0;
    view.ended_at.us = 1796002210360000;
    view.charge.value = 0;
    view.peak_charge.value = 1122013184;
    view.peak_at.us = 1796002209920000;
    view.active.value = view.reserved.value = 0;
    view.events = 112;
    view.outcome = BH_OUTCOME_POLICY_INTERVENTION;
    view.cause = BH_CAUSE_LIMIT_EXCEEDED;
    view.sentence =
        "It reached its 1 GiB limit at 01:30:09, no checkpoint was taken, and it exited "
        "0.6 s later.";
    view.signal = 15;
    view.event_sequence = 31;
    bh_view_job_document(&view, &body);
    assert_equal(parse(&body), example("job_finished.json"));
}

static void unknown_is_never_zero(void **state)
{
    struct bh_job_spec spec = make_spec();
    struct bh_job_view view = make_view(&spec);
    struct bh_bytes body = {0};
    (void)state;
    view.charge = view.active = (struct bh_observed){0};
    view.reserved.status = BH_VALUE_UNAVAILABLE;
    view.recorder_reason = "no_mlx";
    bh_view_job_document(&view, &body);
    json_t *root = parse(&body);
    json_t *charge = json_object_get(root, "charge");
    assert_string_equal(json_string_value(json_object_get(charge, "status")), "unknown");
    assert_null(json_object_get(charge, "value"));
    json_t *reserved = json_object_get(root, "reserved");
    assert_string_equal(json_string_value(json_object_get(reserved, "reason")), "no_mlx");
    json_decref(root);
}

static void spec_is_redacted(void **state)
{
    struct bh_job_spec spec = make_spec();
    struct bh_bytes body = {0};
    (void)state;
    bh_view_spec_document(&spec, &body);
    assert_null(strstr((char *)body.data, "hf_secret"));
    assert_equal(parse(&body), example("spec.json"));
}

static void facts_have_their_shape(void **state)
{
    struct bh_record record = {
        .kind = BH_RECORD_TRANSITION, .sequence = 11, .at = {86400500000000 + 8600000000}};
    struct bh_anchor anchor = {{86400500000000}, {1796002200120000}};
    struct bh_wall started = {1796002200120000};
    struct bh_bytes body = {0};
    struct bh_json json;
    (void)state;
    record.transition = (struct bh_record_transition){.from = BH_POLICY_STATE_NORMAL,
                                                      .to = BH_POLICY_STATE_WARNING,
                                                      .bytes = {BH_VALUE_AVAILABLE, 971018240}};
    bh_json_begin(&json, &body, BH_JSON_COMPACT);
    bh_view_transition(&json, NULL, NULL, &record, anchor, started);
    bh_json_finish(&json);
    json_t *list = example("transitions.json");
    json_t *want = json_incref(json_array_get(json_object_get(list, "transitions"), 0));
    json_decref(list);
    assert_equal(parse(&body), want);
}

static void host_and_info_have_all_members(void **state)
{
    const struct bh_host_view host = {.has_pressure = true, .metric = "m"};
    const struct bh_info_view info = {.epoch = "7f3c91aa", .os = "", .kernel = "", .machine = ""};
    struct bh_bytes body = {0};
    const char *key;
    json_t *value;
    (void)state;
    bh_view_host_document(&host, &body);
    json_t *got = parse(&body);
    json_t *want = example("host.json");
    json_object_foreach(want, key, value)
    {
        if (!json_object_get(got, key))
            fail_msg("host lacks %s", key);
    }
    json_decref(got);
    json_decref(want);
    bh_view_info_document(&info, &body);
    got = parse(&body);
    want = example("info.json");
    json_object_foreach(want, key, value)
    {
        if (!json_object_get(got, key))
            fail_msg("info lacks %s", key);
    }
    json_decref(got);
    json_decref(want);
}

static void late_readings_are_merged(void **state)
{
    static const char report[] = "{\"a\":1,\"reclamation\":{\"verdict\":\"pending\",\"x\":2}}";
    static const char late[] = "{\"schema\":\"s\",\"run_id\":\"r\",\"verdict\":\"reclaimed\"}";
    struct bh_bytes left = {0};
    struct bh_bytes right = {0};
    struct bh_bytes body = {0};
    (void)state;
    bh_bytes_append_text(&left, report);
    bh_bytes_append_text(&right, late);
    assert_int_equal(bh_report_merge(&left, &right, &body), 0);
    json_t *want =
        json_loads("{\"a\":1,\"reclamation\":{\"verdict\":\"reclaimed\",\"x\":2}}", 0, NULL);
    assert_equal(parse(&body), want);
    bh_bytes_clear(&right);
    bh_bytes_append_text(&right, "[1]");
    assert_int_equal(bh_report_merge(&left, &right, &body), BH_E_MALFORMED);
    bh_bytes_done(&left);
    bh_bytes_done(&right);
    bh_bytes_done(&body);
}

static void verdicts_are_read(void **state)
{
    static const char good[] =
        "{\"code\":\"launch_not_found\",\"detail\":\"x was not found\",\"field\":\"command\"}\n";
    static const char *const bad[] = {"", "{", "[]", "{\"code\":7}", "{\"code\":\"nonsense\"}"};
    struct bh_diag diag = {0};
    (void)state;
    assert_int_equal(bh_verdict_read(good, sizeof good - 1, &diag), BH_E_LAUNCH_NOT_FOUND);
    assert_string_equal(diag.detail, "x was not found");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bh_verdict_read(bad[i], strlen(bad[i]), &diag), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_running),
        cmocka_unit_test(job_stopping_names_who_is_waited_for),
        cmocka_unit_test(job_finished),
        cmocka_unit_test(unknown_is_never_zero),
        cmocka_unit_test(spec_is_redacted),
        cmocka_unit_test(facts_have_their_shape),
        cmocka_unit_test(host_and_info_have_all_members),
        cmocka_unit_test(late_readings_are_merged),
        cmocka_unit_test(verdicts_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
