/* Frames of a supervisor into the registry: what they change, what is published, and that nonsense
 * does no harm. No socket: frames are handed over decoded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/model/policy.h"
#include "core/wire/journal.h"
#include "core/wire/spec_file.h"
#include "core/wire/status_file.h"
#include "server/feed.h"
#include "server/link_events.h"
#include "server/metrics.h"
#include "server/sup_spawn.h"

#define ID "0mhq2v9k3dx7c1p5n8tb"

struct fixture {
    struct bh_app app;
    char folder[64];
    struct bh_job *job;
    struct bh_source *events;
    char text[1 << 16];
};

static int setup(void **state)
{
    static const char *const argv[] = {"sleep", "1"};
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct bh_app *app = &fixture->app;
    struct bh_store_start start;
    struct bh_job_spec spec;
    struct bh_job_spec *owned = NULL;
    struct bh_bytes bytes = {0};
    struct bh_bytes first = {0};
    (void)snprintf(fixture->folder, sizeof fixture->folder, "/tmp/bh-link-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    assert_int_equal(uv_loop_init(&app->loop), 0);
    assert_int_equal(bh_store_open(fixture->folder, false, &app->store, &start, NULL), 0);
    assert_int_equal(bh_hub_new(&app->loop, "0123abcd", &app->hub), 0);
    assert_int_equal(bh_jobs_new(app, &app->jobs), 0);
    assert_int_equal(bh_metrics_new(&app->metrics), 0);
    assert_int_equal(bh_feed_new(app, &app->feed, NULL), 0);
    bh_job_spec_init(&spec);
    memcpy(spec.id, ID, sizeof ID);
    spec.argv = argv;
    spec.argc = 2;
    spec.mode = BH_MODE_ENFORCE;
    spec.limit_bytes = 1 << 30;
    assert_int_equal(bh_job_spec_resolve(&spec, NULL), 0);
    assert_int_equal(bh_spec_file_encode(&spec, &bytes, NULL), 0);
    assert_int_equal(bh_spec_file_decode(bytes.data, bytes.length, &owned, NULL), 0);
    bh_bytes_done(&bytes);
    assert_int_equal(bh_jobs_add(app->jobs, owned, -1, &fixture->job), 0);
    fixture->job->state = BH_JOB_RUNNING;
    fixture->job->anchor = (struct bh_anchor){{1000000000}, {1796002200000000}};
    struct bh_stream_options options = {.types = BH_EVENT_ALL, .from = 1};
    assert_int_equal(bh_hub_stream(app->hub, &options, &first, &fixture->events), 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    struct bh_app *app = &fixture->app;
    fixture->events->free(fixture->events);
    bh_jobs_close(app->jobs);
    bh_hub_close(app->hub);
    bh_feed_close(app->feed);
    (void)uv_run(&app->loop, UV_RUN_DEFAULT);
    bh_jobs_free(app->jobs);
    bh_feed_free(app->feed);
    bh_hub_free(app->hub);
    bh_metrics_free(app->metrics);
    bh_store_close(app->store);
    assert_int_equal(uv_loop_close(&app->loop), 0);
    (void)bh_io_remove_tree(AT_FDCWD, fixture->folder, NULL);
    free(fixture);
    return 0;
}

/* What was published since the last call. */
static const char *published(struct fixture *fixture)
{
    size_t used = 0;
    int64_t n;
    while ((n = fixture->events->read(fixture->events, fixture->text + used,
                                      sizeof fixture->text - 1 - used)) > 0)
        used += (size_t)n;
    fixture->text[used] = '\0';
    return fixture->text;
}

static int send_frame(struct fixture *fixture, enum bh_msg type, const void *body, size_t length)
{
    struct bh_frame frame = {.type = type, .body = body, .body_length = length};
    return bh_link_take_event(fixture->job, &frame);
}

static int send_record(struct fixture *fixture, const struct bh_record *record)
{
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    unsigned char body[BH_JOURNAL_MAX_RECORD + 64];
    struct bh_tlv_writer writer;
    int length = bh_record_encode(record, ID, bytes, sizeof bytes);
    assert_true(length > 0);
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_bytes(&writer, BH_TAG_RECORD, bytes, (size_t)length);
    return send_frame(fixture, BH_MSG_EV_RECORD, body, writer.length);
}

static struct bh_status make_status(void)
{
    struct bh_status status = {.state = BH_JOB_RUNNING,
                               .policy_state = BH_POLICY_STATE_NORMAL,
                               .mode = BH_MODE_ENFORCE,
                               .boundary = BH_BOUNDARY_SAMPLED,
                               .root_pid = 4121,
                               .members = 2,
                               .limits_revision = 1,
                               .at = {3000000000},
                               .started = {2000000000},
                               .sequence = 4,
                               .charge = {BH_VALUE_AVAILABLE, 500},
                               .peak_charge = {BH_VALUE_AVAILABLE, 700},
                               .limit_bytes = 1 << 30,
                               .recorder = BH_RECORDER_ATTACHED,
                               .events = 58};
    memcpy(status.run_id, ID, sizeof ID);
    return status;
}

static void send_status(struct fixture *fixture, const struct bh_status *status)
{
    unsigned char image[BH_STATUS_FILE_BYTES];
    unsigned char body[300];
    struct bh_tlv_writer writer;
    bh_status_file_encode(status, image);
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_bytes(&writer, BH_TAG_STATUS, image, sizeof image);
    assert_int_equal(send_frame(fixture, BH_MSG_STATUS, body, writer.length), 0);
}

static void a_status_is_shown(void **state)
{
    struct fixture *fixture = *state;
    struct bh_status status = make_status();
    struct bh_job_view view;
    send_status(fixture, &status);
    bh_jobs_view(fixture->job, &view);
    assert_int_equal(view.root_pid, 4121);
    assert_int_equal(view.members, 2);
    assert_true(view.started_at.us == 1796002201000000); /* one second after the anchor */
    assert_int_equal(view.event_sequence, 4);
    assert_non_null(strstr(published(fixture), "\"root_pid\":4121"));
    send_status(fixture, &status); /* nothing new: nothing is said */
    assert_string_equal(published(fixture), "");
    /* finished is said only when the report can be read */
    status.state = BH_JOB_FINISHED;
    send_status(fixture, &status);
    assert_int_equal(fixture->job->state, BH_JOB_STOPPING);
}

static void records_become_events(void **state)
{
    struct fixture *fixture = *state;
    struct bh_record record = {.kind = BH_RECORD_TRANSITION, .sequence = 11, .at = {9600000000}};
    record.transition = (struct bh_record_transition){.from = BH_POLICY_STATE_WARNING,
                                                      .to = BH_POLICY_STATE_TERMINATING,
                                                      .bytes = {BH_VALUE_AVAILABLE, 1 << 30},
                                                      .reason = "not_negotiated"};
    assert_int_equal(send_record(fixture, &record), 0);
    assert_int_equal(fixture->job->state, BH_JOB_STOPPING);
    const char *text = published(fixture);
    assert_non_null(strstr(text, "event: transition\ndata: {\"job_id\":\"" ID "\",\"seq\":11"));
    assert_non_null(strstr(text, "\"state\":\"stopping\""));
    assert_int_equal(fixture->job->event_sequence, 11);
    assert_true(fixture->job->dirty); /* the import has something to do */

    record = (struct bh_record){.kind = BH_RECORD_SIGNAL, .sequence = 12, .at = {9700000000}};
    record.signal = (struct bh_record_signal){.signal = 15,
                                              .target = BH_TARGET_TREE,
                                              .result = BH_SIGNAL_DELIVERED,
                                              .reason = "emergency"};
    assert_int_equal(send_record(fixture, &record), 0);
    assert_non_null(strstr(published(fixture), "\"signal\":\"SIGTERM\""));
}

static void samples_carry_their_extremes(void **state)
{
    struct fixture *fixture = *state;
    struct bh_record record = {.kind = BH_RECORD_SAMPLE, .sequence = 3, .at = {5000000000}};
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    unsigned char body[BH_JOURNAL_MAX_RECORD];
    struct bh_tlv_writer writer;
    record.sample = (struct bh_sample){
        .captured_at = {5000000000}, .bytes = {BH_VALUE_AVAILABLE, 300}, .members = 3};
    int length = bh_record_encode(&record, ID, bytes, sizeof bytes);
    assert_true(length > 0);
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_bytes(&writer, BH_TAG_SAMPLE, bytes, (size_t)length);
    bh_tlv_u64(&writer, BH_TAG_BYTES_MIN, 100);
    bh_tlv_u64(&writer, BH_TAG_BYTES_MAX, 400);
    assert_int_equal(send_frame(fixture, BH_MSG_EV_SAMPLE, body, writer.length), 0);
    const char *text = published(fixture);
    assert_non_null(strstr(text, "\"charge\":{\"min\":100,\"max\":400,\"last\":300}"));
    assert_non_null(strstr(text, "\"to_us\":1796002204000000"));
    assert_non_null(strstr(text, "\"active\":null")); /* unknown is never 0 */
    assert_int_equal(fixture->job->status.members, 3);
}

static void final_ends_the_job(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(send_frame(fixture, BH_MSG_EV_FINAL, NULL, 0), 0);
    assert_true(fixture->job->ended);
    assert_int_equal(fixture->job->state, BH_JOB_STOPPING); /* until it is imported */
}

static void unknown_frames_are_skipped_unless_required(void **state)
{
    struct fixture *fixture = *state;
    struct bh_frame frame = {.type = (enum bh_msg)49};
    assert_int_equal(bh_link_take_event(fixture->job, &frame), 0);
    frame.flags = BH_FRAME_REQUIRED;
    assert_int_equal(bh_link_take_event(fixture->job, &frame), BH_E_MALFORMED);
    assert_int_equal(send_frame(fixture, BH_MSG_EV_RECORD, NULL, 0), BH_E_MALFORMED);
}

static void hostile_bodies_do_no_harm(void **state)
{
    struct fixture *fixture = *state;
    static const enum bh_msg types[] = {BH_MSG_EV_SAMPLE, BH_MSG_EV_RECORD, BH_MSG_EV_DRAIN,
                                        BH_MSG_STATUS, BH_MSG_MEMBERS};
    struct bh_status status = make_status();
    unsigned char image[BH_STATUS_FILE_BYTES];
    unsigned char body[400];
    struct bh_tlv_writer writer;
    unsigned seed = 3;
    bh_status_file_encode(&status, image);
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_bytes(&writer, BH_TAG_STATUS, image, sizeof image);
    bh_tlv_bytes(&writer, BH_TAG_SAMPLE, image, 60);
    for (int i = 0; i < 20000; i++) {
        unsigned char copy[400];
        memcpy(copy, body, writer.length);
        for (int k = 0; k < 4; k++) {
            seed = seed * 1103515245u + 12345u;
            copy[(seed >> 8) % writer.length] = (unsigned char)(seed >> 16);
        }
        (void)send_frame(fixture, types[(seed >> 4) % 5], copy, (seed >> 9) % writer.length);
        if (i % 1000 == 0)
            (void)published(fixture);
    }
}

static int seen_members;

static void count_member(void *user, const struct bh_member_view *member)
{
    (void)user;
    assert_int_equal(member->pid, 4140);
    assert_string_equal(member->basename, "tokenizer");
    assert_true(member->charge.status == BH_VALUE_AVAILABLE && member->charge.value == 4096);
    assert_true(member->left_group);
    seen_members++;
}

static void members_are_read(void **state)
{
    unsigned char body[200];
    struct bh_tlv_writer writer;
    (void)state;
    bh_tlv_begin(&writer, body, sizeof body);
    size_t mark = bh_tlv_group(&writer, BH_TAG_MEMBER);
    bh_tlv_u64(&writer, BH_TAG_PID, 4140);
    bh_tlv_text(&writer, BH_TAG_BASENAME, "tokenizer");
    bh_tlv_u64(&writer, BH_TAG_BYTES, 4096);
    bh_tlv_u64(&writer, BH_TAG_ESCAPED, 1);
    bh_tlv_group_end(&writer, mark);
    struct bh_frame frame = {.type = BH_MSG_MEMBERS, .body = body, .body_length = writer.length};
    assert_int_equal(bh_link_read_members(&frame, count_member, NULL), 0);
    assert_int_equal(seen_members, 1);
}

static void verdicts_become_errors(void **state)
{
    struct fixture *fixture = *state;
    const struct bh_job_spec *spec = fixture->job->spec;
    struct bh_diag diag = {0};
    assert_int_equal(bh_helper_verdict(0, "", spec, &diag), 0);
    assert_int_equal(bh_helper_verdict(126,
                                       "{\"code\":\"launch_cwd\",\"detail\":\"no such folder\"}",
                                       spec, &diag),
                     BH_E_LAUNCH_CWD);
    assert_string_equal(diag.detail, "no such folder");
    assert_int_equal(bh_helper_verdict(127, "", spec, &diag), BH_E_LAUNCH_NOT_FOUND);
    assert_non_null(strstr(diag.detail, "sleep"));
    assert_int_equal(bh_helper_verdict(126, "x", spec, &diag), BH_E_LAUNCH_NOT_EXECUTABLE);
    assert_int_equal(bh_helper_verdict(64, "", spec, &diag), BH_E_INVALID_CONFIG);
    assert_int_equal(bh_helper_verdict(139, "", spec, &diag), BH_E_SUPERVISOR_START);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_status_is_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(records_become_events, setup, teardown),
        cmocka_unit_test_setup_teardown(samples_carry_their_extremes, setup, teardown),
        cmocka_unit_test_setup_teardown(final_ends_the_job, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_frames_are_skipped_unless_required, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(hostile_bodies_do_no_harm, setup, teardown),
        cmocka_unit_test_setup_teardown(members_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(verdicts_become_errors, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
