/* The signal checkpoint in the loop, this test in the place of the helper that looks: what it says
 * late, twice, of another request or not at all changes nothing but what is due to it. */
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "core/super/checkpoint_look.h"
#include "super_fixture.h"

#define S  BH_NS_PER_S
#define MS BH_NS_PER_MS

struct scene {
    struct fixture *fixture;
    int helper_fd;
    struct bh_look_request request; /* last one heard */
};

static void open_scene(struct scene *scene)
{
    struct fixture *fixture = fixture_new();
    int decider_fd = -1;
    memset(scene, 0, sizeof *scene);
    scene->fixture = fixture;
    fixture->spec.checkpoint_kind = BH_CHECKPOINT_SIGNAL;
    fixture->spec.checkpoint_signal = SIGUSR1;
    fixture->spec.checkpoint_path = "out/model.safetensors";
    fixture->spec.checkpoint_timeout_ns = 5 * S;
    fixture->root->caught_signals = (uint64_t)1 << (SIGUSR1 - 1);
    fixture->root->term_after_ns = 10 * MS;
    assert_int_equal(bh_look_open(&decider_fd, &scene->helper_fd), BH_OK);
    fixture_init_loop(fixture);
    bh_checkpoint_prepare(&fixture->loop->checkpoint, 1024, decider_fd);
    assert_int_equal(bh_loop_launched(fixture->loop, ROOT_PID, NULL), BH_OK);
}

static void close_scene(struct scene *scene)
{
    if (scene->helper_fd >= 0)
        (void)close(scene->helper_fd);
    fixture_free(scene->fixture);
}

static bool hear(struct scene *scene)
{
    return recv(scene->helper_fd, &scene->request, sizeof scene->request, MSG_DONTWAIT) > 0;
}

static void say(struct scene *scene, enum bh_look_kind kind, uint64_t id)
{
    struct bh_look_answer answer = {
        .kind = (uint32_t)kind, .id = id, .artifact_kind = 2, .size_bytes = 4096};
    assert_int_equal(send(scene->helper_fd, &answer, sizeof answer, 0), sizeof answer);
}

static enum bh_checkpoint_word last_word(const struct scene *scene)
{
    size_t count = fixture_count(scene->fixture, BH_RECORD_CHECKPOINT);
    return fixture_get(scene->fixture, BH_RECORD_CHECKPOINT, count - 1)->checkpoint.word;
}

/* Over the limit, and until the request is out. */
static void exceed(struct scene *scene)
{
    scene->fixture->root->anon_bytes = GIB + MIB;
    assert_false(fixture_run(scene->fixture, S));
    assert_int_equal(last_word(scene), BH_CKPT_REQUESTED_UNVERIFIED);
    assert_true(hear(scene));
    assert_int_equal(scene->request.kind, BH_LOOK_BEGIN);
}

static void test_verified(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    exceed(&scene);
    struct bh_fake_process *root = scene.fixture->root;
    assert_int_equal(root->signals[SIGUSR1], 0); /* not before what was there is remembered */
    say(&scene, BH_LOOK_MARKED, scene.request.id);
    assert_false(fixture_run(scene.fixture, 100 * MS));
    assert_int_equal(root->signals[SIGUSR1], 1);
    say(&scene, BH_LOOK_MARKED, scene.request.id); /* of a standby that took over */
    assert_false(fixture_run(scene.fixture, 100 * MS));
    assert_int_equal(root->signals[SIGUSR1], 1);
    say(&scene, BH_LOOK_FOUND, scene.request.id);
    assert_true(fixture_run(scene.fixture, S));
    fixture_expect_signal(scene.fixture, 0, SIGTERM, "checkpoint_acknowledged");
    assert_int_equal(last_word(&scene), BH_CKPT_VERIFIED_FILE);
    const struct bh_record *record =
        fixture_get(scene.fixture, BH_RECORD_CHECKPOINT,
                    fixture_count(scene.fixture, BH_RECORD_CHECKPOINT) - 1);
    assert_int_equal(record->checkpoint.artifact_kind, 2);
    assert_int_equal(record->checkpoint.artifact_bytes.value, 4096);
    close_scene(&scene);
}

/* A disk that does not answer: the job is not even told, and its stop comes when it is due. */
static void test_helper_that_is_stuck(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    exceed(&scene);
    uint64_t asked = fixture_get(scene.fixture, BH_RECORD_CHECKPOINT, 0)->at.ns;
    assert_true(fixture_run(scene.fixture, 10 * S));
    fixture_expect_signal(scene.fixture, 0, SIGTERM, "checkpoint_timed_out");
    assert_int_equal(last_word(&scene), BH_CKPT_TIMED_OUT);
    assert_int_equal(scene.fixture->root->signals[SIGUSR1], 0);
    uint64_t waited = fixture_get(scene.fixture, BH_RECORD_SIGNAL, 0)->at.ns - asked;
    assert_true(waited >= 5 * S && waited < 5 * S + 100 * MS);
    assert_true(hear(&scene)); /* nobody waits any more */
    assert_int_equal(scene.request.kind, BH_LOOK_END);
    close_scene(&scene);
}

static void test_answers_of_other_requests(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    say(&scene, BH_LOOK_FOUND, 7); /* before anything was asked */
    exceed(&scene);
    say(&scene, BH_LOOK_MARKED, scene.request.id + 1);
    say(&scene, BH_LOOK_FOUND, scene.request.id + 1);
    say(&scene, BH_LOOK_FOUND, scene.request.id); /* found before the job was told */
    assert_false(fixture_run(scene.fixture, S));
    assert_int_equal(scene.fixture->root->signals[SIGUSR1], 0);
    assert_int_equal(last_word(&scene), BH_CKPT_REQUESTED_UNVERIFIED);
    assert_true(fixture_run(scene.fixture, 10 * S));
    fixture_expect_signal(scene.fixture, 0, SIGTERM, "checkpoint_timed_out");
    close_scene(&scene);
}

static void test_found_too_late(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    scene.fixture->root->term_after_ns = UINT64_MAX;
    exceed(&scene);
    say(&scene, BH_LOOK_MARKED, scene.request.id);
    assert_false(fixture_run(scene.fixture, 4 * S + 500 * MS));
    fixture_expect_signal(scene.fixture, 0, SIGTERM, "checkpoint_timed_out");
    say(&scene, BH_LOOK_FOUND, scene.request.id);
    assert_true(fixture_run(scene.fixture, 10 * S));
    fixture_expect_signal(scene.fixture, 1, SIGKILL, "grace_expired");
    assert_int_equal(last_word(&scene), BH_CKPT_TIMED_OUT);
    close_scene(&scene);
}

static void test_helper_that_died(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    exceed(&scene);
    (void)close(scene.helper_fd);
    scene.helper_fd = -1;
    assert_true(fixture_run(scene.fixture, S));
    fixture_expect_signal(scene.fixture, 0, SIGTERM, "checkpoint_failed");
    assert_int_equal(last_word(&scene), BH_CKPT_FAILED);
    close_scene(&scene);

    open_scene(&scene);
    (void)close(scene.helper_fd);
    scene.helper_fd = -1;
    assert_false(fixture_run(scene.fixture, S));
    scene.fixture->root->anon_bytes = GIB + MIB;
    assert_true(fixture_run(scene.fixture, S));
    fixture_expect_signal(scene.fixture, 0, SIGTERM, "not_negotiated");
    close_scene(&scene);
}

static void test_job_that_would_die_of_it(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    scene.fixture->root->caught_signals = 0;
    scene.fixture->root->anon_bytes = GIB + MIB;
    assert_true(fixture_run(scene.fixture, S));
    fixture_expect_signal(scene.fixture, 0, SIGTERM, "checkpoint_failed");
    assert_int_equal(scene.fixture->root->signals[SIGUSR1], 0);
    close_scene(&scene);
}

/* "process": "python": who that is says the helper, and it must still be the one it looked at. */
static void test_python_of_the_tree(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        struct scene scene;
        open_scene(&scene);
        scene.fixture->spec.checkpoint_process_python = true;
        struct bh_fake_process *child = bh_fake_add(&scene.fixture->fake, 600, ROOT_PID);
        child->caught_signals = (uint64_t)1 << (SIGUSR1 - 1);
        exceed(&scene);
        assert_int_equal(scene.request.count, 2);
        struct bh_look_answer answer = {.kind = BH_LOOK_MARKED,
                                        .id = scene.request.id,
                                        .pid = 600,
                                        .start_token = child->start_token + (uint64_t)other};
        assert_int_equal(send(scene.helper_fd, &answer, sizeof answer, 0), sizeof answer);
        (void)fixture_run(scene.fixture, 100 * MS);
        assert_int_equal(child->signals[SIGUSR1], 1 - other);
        assert_int_equal(scene.fixture->root->signals[SIGUSR1], 0);
        if (other)
            fixture_expect_signal(scene.fixture, 0, SIGTERM, "checkpoint_failed");
        close_scene(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verified),
        cmocka_unit_test(test_helper_that_is_stuck),
        cmocka_unit_test(test_answers_of_other_requests),
        cmocka_unit_test(test_found_too_late),
        cmocka_unit_test(test_helper_that_died),
        cmocka_unit_test(test_job_that_would_die_of_it),
        cmocka_unit_test(test_python_of_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
