/* The helper that looks for a checkpoint's file, as a process: asked, killed, stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/platform/platform.h"
#include "core/super/checkpoint_look.h"
#include "scratch.h"

struct scene {
    struct scratch scratch;
    int fd, pid;
};

static int setup(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    int helper_fd = -1;
    scratch_open(&scene->scratch);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0); /* its standby is ours, too */
    assert_int_equal(bh_look_open(&scene->fd, &helper_fd), BH_OK);
    scene->pid = (int)fork();
    if (scene->pid == 0) {
        (void)close(scene->fd);
        bh_look_serve(helper_fd, scene->scratch.fd, "saved");
    }
    (void)close(helper_fd);
    *state = scene;
    return 0;
}

static int teardown(void **state)
{
    struct scene *scene = *state;
    (void)close(scene->fd);
    while (waitpid(-1, NULL, 0) > 0) /* hangs when one does not end with us */
        ;
    scratch_close(&scene->scratch);
    free(scene);
    return 0;
}

static void ask(struct scene *scene, enum bh_look_kind kind, uint64_t id)
{
    struct bh_look_request request = {.kind = (uint32_t)kind, .id = id};
    assert_int_equal(bh_look_ask(scene->fd, &request), BH_OK);
}

/* false: nothing within the time */
static bool hears(struct scene *scene, int ms, struct bh_look_answer *ret_answer)
{
    struct pollfd readable = {.fd = scene->fd, .events = POLLIN};
    if (poll(&readable, 1, ms) != 1)
        return false;
    assert_int_equal(bh_look_hear(scene->fd, ret_answer), 1);
    return true;
}

static struct bh_look_answer expect(struct scene *scene, enum bh_look_kind kind, uint64_t id)
{
    struct bh_look_answer answer = {0};
    assert_true(hears(scene, 20000, &answer));
    assert_int_equal(answer.kind, kind);
    assert_int_equal(answer.id, id);
    return answer;
}

static void put(struct scene *scene, const char *text)
{
    assert_int_equal(bh_io_replace(scene->scratch.fd, "saved", text, strlen(text), false, NULL),
                     BH_OK);
}

static void test_a_new_file_is_found(void **state)
{
    struct scene *scene = *state;
    struct bh_look_answer answer;
    assert_int_equal(bh_look_hear(scene->fd, &answer), 0);
    put(scene, "what was there before");
    ask(scene, BH_LOOK_BEGIN, 7);
    (void)expect(scene, BH_LOOK_MARKED, 7);
    assert_false(hears(scene, 900, &answer)); /* the old one is no answer, however long it lies */
    put(scene, "new");
    answer = expect(scene, BH_LOOK_FOUND, 7);
    assert_int_equal(answer.artifact_kind, 1);
    assert_int_equal(answer.size_bytes, 3);
    put(scene, "newer");
    assert_false(hears(scene, 900, &answer)); /* once is enough */
}

static void test_a_request_that_is_over(void **state)
{
    struct scene *scene = *state;
    struct bh_look_answer answer;
    ask(scene, BH_LOOK_BEGIN, 1);
    (void)expect(scene, BH_LOOK_MARKED, 1);
    put(scene, "one");
    ask(scene, BH_LOOK_END, 1);
    assert_false(hears(scene, 900, &answer));
    ask(scene, BH_LOOK_BEGIN, 2);
    (void)expect(scene, BH_LOOK_MARKED, 2);
    ask(scene, BH_LOOK_END, 1); /* of the one before: late */
    put(scene, "two");
    (void)expect(scene, BH_LOOK_FOUND, 2);
}

/* A shard that grows inside leaves the directory itself as it is. */
static void test_a_directory_is_waited_for(void **state)
{
    struct scene *scene = *state;
    struct bh_look_answer answer;
    ask(scene, BH_LOOK_BEGIN, 3);
    (void)expect(scene, BH_LOOK_MARKED, 3);
    assert_int_equal(mkdirat(scene->scratch.fd, "saved", 0700), 0);
    int fd = openat(scene->scratch.fd, "saved/shard", O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(write(fd, "0123456789", 10), 10);
        assert_false(hears(scene, 100, &answer));
    }
    (void)close(fd);
    answer = expect(scene, BH_LOOK_FOUND, 3);
    assert_int_equal(answer.artifact_kind, 2);
    assert_int_equal(answer.size_bytes, 100);
}

static void test_killed_while_it_looks(void **state)
{
    struct scene *scene = *state;
    put(scene, "before");
    ask(scene, BH_LOOK_BEGIN, 4);
    (void)expect(scene, BH_LOOK_MARKED, 4);
    assert_int_equal(kill(scene->pid, SIGKILL), 0);
    assert_int_equal(waitpid(scene->pid, NULL, 0), scene->pid);
    struct bh_look_answer answer;
    assert_false(hears(scene, 700, &answer)); /* and what lay there is still no answer */
    put(scene, "after");
    (void)expect(scene, BH_LOOK_FOUND, 4);
}

/* As on a disk that does not answer: whoever asks goes on at once, however often. */
static void test_stopped(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(kill(scene->pid, SIGSTOP), 0);
    struct bh_look_request request = {.kind = BH_LOOK_BEGIN, .count = BH_LOOK_PROCESSES};
    int result = BH_OK;
    while ((result = bh_look_ask(scene->fd, &request)) == BH_OK)
        request.id++;
    assert_int_equal(result, BH_E_AGAIN);
    assert_int_equal(kill(scene->pid, SIGCONT), 0);
    (void)expect(scene, BH_LOOK_MARKED, 0);
}

static void test_python_by_its_library(void **state)
{
    struct scene *scene = *state;
    uint64_t token = 0;
    struct bh_look_request request = {.kind = BH_LOOK_BEGIN, .id = 5, .count = 2};
    assert_int_equal(bh_platform_start_token(scene->pid, &token), BH_OK);
    request.processes[0] = (struct bh_look_process){.pid = scene->pid, .start_token = token};
    assert_int_equal(bh_platform_start_token((int)getpid(), &token), BH_OK);
    request.processes[1] = (struct bh_look_process){.pid = (int)getpid(), .start_token = token};
    assert_int_equal(bh_look_ask(scene->fd, &request), BH_OK);
    assert_int_equal(expect(scene, BH_LOOK_MARKED, 5).pid, 0); /* neither of us */
    /* an interpreter by another name: an application that embeds it */
    assert_int_equal(bh_io_replace(scene->scratch.fd, "libpython3.so", "x", 1, false, NULL), BH_OK);
    int fd = openat(scene->scratch.fd, "libpython3.so", O_RDONLY | O_CLOEXEC);
    void *area = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(area, MAP_FAILED);
    (void)close(fd);
    request.id = 6;
    assert_int_equal(bh_look_ask(scene->fd, &request), BH_OK);
    struct bh_look_answer answer = expect(scene, BH_LOOK_MARKED, 6);
    assert_int_equal(answer.pid, getpid());
    assert_int_equal(answer.start_token, token);
    (void)munmap(area, 4096);
    request.id = 7;
    request.processes[0].python = 1; /* or by the name of its executable */
    assert_int_equal(bh_look_ask(scene->fd, &request), BH_OK);
    assert_int_equal(expect(scene, BH_LOOK_MARKED, 7).pid, scene->pid);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_new_file_is_found),
        TEST(test_a_request_that_is_over),
        TEST(test_a_directory_is_waited_for),
        TEST(test_killed_while_it_looks),
        TEST(test_stopped),
        TEST(test_python_by_its_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
