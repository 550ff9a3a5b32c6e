/* The HTTP layer on a unix socket with a backend made for the test: answers now and later, sources
 * that wait, bodies, limits, and what clumsy clients do. One thread: the loop runs until the
 * client's bytes are there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/reply.h"
#include "core/base/io.h"
#include "server/http.h"
#include "server/listen.h"

struct slow_source {
    struct bh_source source;
    int left;
    bool armed; /* gives a piece at the next read */
    bool freed;
};

struct fixture {
    char folder[64], path[96];
    int fd;
    uv_loop_t loop;
    struct bh_auth *auth;
    struct bh_gate gate;
    struct bh_static *files;
    struct bh_backend backend;
    struct bh_http *http;
    struct bh_call *held; /* answered later */
    struct slow_source slow;
    char launched[64];
    int refused, done;
};

static void op_info(void *self, struct bh_call *call)
{
    (void)self;
    bh_bytes_append_text(&call->reply.body, "{\"now\":1}");
    bh_reply_body(call, 200, BH_TYPE_JSON);
}

static void op_host(void *self, struct bh_call *call)
{
    struct fixture *fixture = self;
    fixture->held = call;
}

static void op_launch(void *self, struct bh_call *call, const struct bh_launch_request *launch)
{
    struct fixture *fixture = self;
    (void)snprintf(fixture->launched, sizeof fixture->launched, "%s", launch->spec.argv[0]);
    bh_reply_header(call, "Location", "/v1/jobs/x");
    bh_reply_empty(call, 201);
}

static int64_t read_slow(struct bh_source *source, char *buffer, size_t capacity)
{
    struct slow_source *slow = (struct slow_source *)source;
    if (slow->left == 0)
        return BH_E_END;
    if (!slow->armed)
        return 0;
    assert_true(capacity >= 5);
    memcpy(buffer, "piece", 5);
    slow->armed = false;
    slow->left--;
    return 5;
}

static void free_slow(struct bh_source *source)
{
    ((struct slow_source *)source)->freed = true;
}

static void op_events(void *self, struct bh_call *call, const struct bh_events *events)
{
    struct fixture *fixture = self;
    (void)events;
    fixture->slow =
        (struct slow_source){.source = {.read = read_slow, .free = free_slow}, .left = 3};
    bh_reply_source(call, 200, BH_TYPE_SSE, &fixture->slow.source, -1);
}

static void on_refused(void *user, int error, const char *peer, const char *detail)
{
    struct fixture *fixture = user;
    (void)error;
    (void)detail;
    assert_non_null(strstr(peer, "uid "));
    fixture->refused++;
}

static void on_done(void *user, const struct bh_route *route, enum bh_method method, int status)
{
    struct fixture *fixture = user;
    (void)route;
    (void)method;
    (void)status;
    fixture->done++;
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    int fd = -1;
    (void)snprintf(fixture->folder, sizeof fixture->folder, "/tmp/bh-http-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    assert_int_equal(bh_io_open_dir(AT_FDCWD, fixture->folder, &fixture->fd, NULL), 0);
    (void)snprintf(fixture->path, sizeof fixture->path, "%s/s", fixture->folder);
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    assert_int_equal(bh_auth_open(fixture->fd, &fixture->auth, NULL), 0);
    assert_int_equal(bh_static_load("", &fixture->files, NULL), 0);
    fixture->gate = (struct bh_gate){.auth = fixture->auth, .own_uid = geteuid()};
    fixture->backend = (struct bh_backend){.self = fixture,
                                           .info = op_info,
                                           .host = op_host,
                                           .launch = op_launch,
                                           .events = op_events};
    struct bh_http_options options = {.loop = &fixture->loop,
                                      .gate = &fixture->gate,
                                      .files = fixture->files,
                                      .backend = &fixture->backend,
                                      .max_connections = 10,
                                      .refused = on_refused,
                                      .done = on_done,
                                      .user = fixture};
    assert_int_equal(bh_http_new(&options, &fixture->http), 0);
    assert_int_equal(bh_listen_unix(fixture->path, &fd, NULL), 0);
    assert_int_equal(bh_http_listen(fixture->http, fd, true, 0, NULL), 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    bh_http_quiesce(fixture->http);
    bh_http_stop(fixture->http);
    (void)uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(bh_http_pending(fixture->http), 0);
    bh_http_free(fixture->http);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    bh_static_free(fixture->files);
    bh_auth_close(fixture->auth);
    (void)close(fixture->fd);
    (void)bh_io_remove_tree(AT_FDCWD, fixture->folder, NULL);
    free(fixture);
    return 0;
}

static int connect_client(struct fixture *fixture)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, fixture->path, strlen(fixture->path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(bh_io_set_nonblocking(fd), 0);
    return fd;
}

static void turn(struct fixture *fixture)
{
    (void)uv_run(&fixture->loop, UV_RUN_NOWAIT);
}

/* Sends, turning the loop while the socket is full. */
static void send_all(struct fixture *fixture, int fd, const char *data, size_t length)
{
    while (length) {
        ssize_t n = send(fd, data, length, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            turn(fixture);
            continue;
        }
        if (n < 0)
            return; /* the server closed: what it said is read next */
        data += n;
        length -= (size_t)n;
    }
}

/* Reads until the text is in the answer, or the end (NULL: until the end). A bound in turns of the
 * loop, each of which waits for something to happen or for the sweeper's second. */
static void read_until(struct fixture *fixture, int fd, const char *text, char *answer, size_t size)
{
    size_t used = 0;
    answer[0] = '\0';
    for (int turns = 0; turns < 200000; turns++) {
        ssize_t n = recv(fd, answer + used, size - 1 - used, 0);
        if (n > 0) {
            used += (size_t)n;
            answer[used] = '\0';
        }
        if (n == 0 || (n < 0 && errno != EAGAIN) || (text && strstr(answer, text)))
            return;
        turn(fixture);
        (void)usleep(n < 0 ? 100 : 0); /* not to spin while nothing happens */
    }
    fail_msg("no end of the answer: %s", answer);
}

static void ask(struct fixture *fixture, int fd, const char *request, const char *until,
                char *answer, size_t size)
{
    send_all(fixture, fd, request, strlen(request));
    read_until(fixture, fd, until, answer, size);
}

static void answers_at_once_and_keeps_alive(void **state)
{
    struct fixture *fixture = *state;
    char answer[4096];
    int fd = connect_client(fixture);
    for (int i = 0; i < 3; i++) {
        ask(fixture, fd, "GET /v1/info HTTP/1.1\r\nHost: x\r\n\r\n", "{\"now\":1}", answer,
            sizeof answer);
        assert_non_null(strstr(answer, "HTTP/1.1 200 OK"));
        assert_non_null(strstr(answer, "Cache-Control: no-store"));
        assert_non_null(strstr(answer, "nosniff"));
    }
    (void)close(fd);
    assert_true(fixture->done >=
                2); /* the last one counts when its connection is looked at again */
}

static void answers_later(void **state)
{
    struct fixture *fixture = *state;
    char answer[4096];
    int fd = connect_client(fixture);
    static const char request[] = "GET /v1/host HTTP/1.1\r\nHost: x\r\n\r\n";
    send_all(fixture, fd, request, sizeof request - 1);
    while (!fixture->held)
        turn(fixture);
    for (int i = 0; i < 50; i++)
        turn(fixture);
    assert_int_equal(recv(fd, answer, 1, 0), -1);
    assert_int_equal(bh_http_pending(fixture->http), 1);
    bh_reply_text(fixture->held, 200, "at last");
    read_until(fixture, fd, "at last", answer, sizeof answer);
    (void)close(fd);
}

static void a_source_is_woken(void **state)
{
    struct fixture *fixture = *state;
    char answer[4096];
    int fd = connect_client(fixture);
    ask(fixture, fd, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n", "text/event-stream", answer,
        sizeof answer);
    for (int i = 0; i < 3; i++) {
        while (!fixture->slow.source.wake)
            turn(fixture);
        for (int k = 0; k < 20; k++)
            turn(fixture);
        fixture->slow.armed = true;
        fixture->slow.source.wake(fixture->slow.source.wake_data);
        read_until(fixture, fd, "piece", answer, sizeof answer);
    }
    while (!fixture->slow.freed)
        turn(fixture);
    (void)close(fd);
}

static void a_stream_that_was_left_is_freed(void **state)
{
    struct fixture *fixture = *state;
    char answer[4096];
    int fd = connect_client(fixture);
    ask(fixture, fd, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n", "text/event-stream", answer,
        sizeof answer);
    (void)close(fd);
    while (!fixture->slow.freed)
        (void)uv_run(&fixture->loop, UV_RUN_ONCE);
    assert_int_equal(bh_http_pending(fixture->http), 0);
}

static void half_a_body_does_not_linger(void **state)
{
    struct fixture *fixture = *state;
    char answer[4096];
    int fd = connect_client(fixture);
    static const char request[] = "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: "
                                  "application/json\r\nContent-Length: 100\r\n\r\n{";
    send_all(fixture, fd, request, sizeof request - 1);
    for (int i = 0; i < 20; i++)
        turn(fixture);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    read_until(fixture, fd, NULL, answer, sizeof answer);
    assert_string_equal(answer, "");
    assert_string_equal(fixture->launched, "");
    (void)close(fd);
}

static void bodies_come_in_pieces(void **state)
{
    struct fixture *fixture = *state;
    char answer[4096];
    int fd = connect_client(fixture);
    static const char *const pieces[] = {
        ("POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: "
         "chunked\r\n\r\n"),
        "10\r\n{\"command\":[\"ab\"\r\n", "5\r\n],\"li\r\n", "e\r\nmit\":\"100MiB\"}\r\n",
        "0\r\n\r\n"};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        send_all(fixture, fd, pieces[i], strlen(pieces[i]));
        for (int k = 0; k < 10; k++)
            turn(fixture);
    }
    read_until(fixture, fd, "\r\n\r\n", answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 201 Created"));
    assert_non_null(strstr(answer, "Location: /v1/jobs/x"));
    assert_string_equal(fixture->launched, "ab");
    (void)close(fd);
}

static void large_bodies_are_refused(void **state)
{
    struct fixture *fixture = *state;
    char answer[4096];
    char head[200];
    size_t size = (1u << 20) + 1;
    char *body = malloc(size);
    int fd = connect_client(fixture);
    memset(body, ' ', size);
    (void)snprintf(head, sizeof head,
                   "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                   "Content-Length: %zu\r\n\r\n",
                   size);
    send_all(fixture, fd, head, strlen(head));
    send_all(fixture, fd, body, size);
    read_until(fixture, fd, "body_too_large", answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 413 "));
    (void)close(fd);
    free(body);
}

static void refusals_are_typed_and_counted(void **state)
{
    static const struct {
        const char *request, *status, *code;
    } cases[] = {
        {"GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n", " 404 ", "\"not_found\""},
        {"PUT /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", " 405 ",
         "\"method_not_allowed\""},
        {"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", " 415 ",
         "\"unsupported_media_type\""},
        {"GET /v1/info?x=1 HTTP/1.1\r\nHost: x\r\n\r\n", " 400 ", "\"bad_query\""},
        {"GET /v1/info?x=%zz HTTP/1.1\r\nHost: x\r\n\r\n", " 400 ", "\"bad_query\""},
        {"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
         "2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
         " 400 ", "\"usage\""},
        {"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
         "2\r\n\r\n{]",
         " 400 ", "\"invalid_json\""},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char answer[4096];
        int fd = connect_client(fixture);
        ask(fixture, fd, cases[i].request, "}", answer, sizeof answer);
        if (!strstr(answer, cases[i].status) || !strstr(answer, cases[i].code))
            fail_msg("%s\n-> %s", cases[i].request, answer);
        (void)close(fd);
    }
    assert_int_equal(fixture->refused, 1); /* the content type; unknown paths are no attack */
}

static void a_foreign_uid_is_refused(void **state)
{
    struct fixture *fixture = *state;
    char answer[4096];
    fixture->gate.own_uid = geteuid() + 1;
    int fd = connect_client(fixture);
    ask(fixture, fd, "GET /v1/info HTTP/1.1\r\nHost: x\r\n\r\n", "}", answer, sizeof answer);
    /* root may always; anybody else is not the owner now */
    assert_non_null(strstr(answer, geteuid() == 0 ? " 200 " : "\"forbidden_uid\""));
    (void)close(fd);
}

static void head_has_no_body(void **state)
{
    struct fixture *fixture = *state;
    char answer[4096];
    int fd = connect_client(fixture);
    ask(fixture, fd, "HEAD /v1/info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", NULL, answer,
        sizeof answer);
    assert_non_null(strstr(answer, "Content-Length: 9"));
    assert_null(strstr(answer, "{\"now\""));
    (void)close(fd);
}

static void stopping_cuts_what_waits(void **state)
{
    struct fixture *fixture = *state;
    char answer[4096];
    int fd = connect_client(fixture);
    ask(fixture, fd, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n", "text/event-stream", answer,
        sizeof answer);
    bh_http_quiesce(fixture->http);
    bh_http_stop(fixture->http);
    assert_true(fixture->slow.freed);
    assert_int_equal(bh_http_pending(fixture->http), 0);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_at_once_and_keeps_alive, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_later, setup, teardown),
        cmocka_unit_test_setup_teardown(a_source_is_woken, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_that_was_left_is_freed, setup, teardown),
        cmocka_unit_test_setup_teardown(half_a_body_does_not_linger, setup, teardown),
        cmocka_unit_test_setup_teardown(bodies_come_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(large_bodies_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals_are_typed_and_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_foreign_uid_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(head_has_no_body, setup, teardown),
        cmocka_unit_test_setup_teardown(stopping_cuts_what_waits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
