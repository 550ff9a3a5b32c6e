/* Security checks: host, rate, token, origin, CSRF, scope, type, in their order; tokens, login
 * codes and sessions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "server/gate.h"

struct fixture {
    char path[64];
    int fd;
    struct bh_auth *auth;
    struct bh_gate gate;
    char bearer[96];
};

static void write_file(int dirfd, const char *name, const char *text)
{
    int fd = openat(dirfd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(bh_io_write_full(fd, text, strlen(text)), 0);
    (void)close(fd);
}

static int setup(void **state)
{
    static struct fixture fixture;
    char token[BH_AUTH_SECRET_SIZE];
    (void)snprintf(fixture.path, sizeof fixture.path, "/tmp/bh-gate-XXXXXX");
    assert_non_null(mkdtemp(fixture.path));
    assert_int_equal(bh_io_open_dir(AT_FDCWD, fixture.path, &fixture.fd, NULL), 0);
    assert_int_equal(mkdirat(fixture.fd, "tokens", 0700), 0);
    write_file(fixture.fd, "tokens/r.read", "read-token-0123456789\n");
    write_file(fixture.fd, "tokens/c.control",
               "control-token-0123456789\r\nsecond-control-token-9\n");
    write_file(fixture.fd, "tokens/x.other", "other-token-0123456789\n");
    write_file(fixture.fd, "tokens/s.launch", "short\n");
    assert_int_equal(bh_auth_open(fixture.fd, &fixture.auth, NULL), 0);
    assert_int_equal(bh_auth_read_token(fixture.fd, token, NULL), 0);
    (void)snprintf(fixture.bearer, sizeof fixture.bearer, "Bearer %s", token);
    fixture.gate = (struct bh_gate){.auth = fixture.auth, .own_uid = 1000};
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    bh_auth_close(fixture->auth);
    (void)close(fixture->fd);
    return bh_io_remove_tree(AT_FDCWD, fixture->path, NULL);
}

static struct bh_gate_request plain(const struct fixture *fixture, enum bh_method method,
                                    const char *path)
{
    return (struct bh_gate_request){.port = 7373,
                                    .method = method,
                                    .path = path,
                                    .host_count = 1,
                                    .host = "127.0.0.1:7373",
                                    .authorization = fixture->bearer,
                                    .content_type = "application/json",
                                    .has_body = method != BH_METHOD_GET};
}

static int check(struct fixture *fixture, const struct bh_gate_request *request)
{
    struct bh_gate_pass pass;
    struct bh_diag diag = {0};
    struct bh_wall now = {1000000};
    struct bh_mono mono = {1000000000};
    int result = bh_gate_check(&fixture->gate, request, now, mono, &pass, &diag);
    if (result < 0)
        assert_true(diag.detail[0] != '\0');
    return result;
}

static void hosts(void **state)
{
    struct fixture *fixture = *state;
    static const char *const good[] = {"127.0.0.1:7373", "localhost:7373", "LOCALHOST:7373",
                                       "[::1]:7373"};
    static const char *const bad[] = {"",
                                      "localhost",
                                      "localhost:7374",
                                      "localhost.:7373",
                                      "0.0.0.0:7373",
                                      "evil.example:7373",
                                      "127.0.0.1",
                                      "127.0.0.1:07373x",
                                      "[::1",
                                      "[::1]",
                                      "127.0.0.1:7373:7373",
                                      "localhost:",
                                      "localhost:99999999",
                                      "127.0.0.1:7373 evil"};
    struct bh_gate_request request = plain(fixture, BH_METHOD_GET, "/v1/jobs");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        request.host = good[i];
        assert_int_equal(check(fixture, &request), 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        request.host = bad[i];
        if (check(fixture, &request) != BH_E_WRONG_HOST)
            fail_msg("Host %s was taken", bad[i]);
    }
    request.host = NULL;
    request.host_count = 0;
    assert_int_equal(check(fixture, &request), BH_E_WRONG_HOST);
    request.host = good[0];
    request.host_count = 2;
    assert_int_equal(check(fixture, &request), BH_E_WRONG_HOST);
    request.host_count = 1;
    request.authority = "evil.example:7373";
    assert_int_equal(check(fixture, &request), BH_E_WRONG_HOST);
    request.authority = "localhost:7373";
    assert_int_equal(check(fixture, &request), 0);
}

static void tunnelled_hosts(void **state)
{
    struct fixture *fixture = *state;
    struct bh_gate_request request = plain(fixture, BH_METHOD_GET, "/v1/jobs");
    fixture->gate.allowed[0] = "box.lan";
    fixture->gate.allowed[1] = "any.lan:*";
    fixture->gate.allowed[2] = "one.lan:80";
    fixture->gate.allowed_count = 3;
    static const char *const good[] = {"box.lan:7373", "any.lan:9", "any.lan", "one.lan",
                                       "one.lan:80"};
    static const char *const bad[] = {"box.lan", "box.lan:80", "xany.lan:9", "one.lan:7373"};
    for (size_t i = 0; i < 5; i++) {
        request.host = good[i];
        if (check(fixture, &request) < 0)
            fail_msg("Host %s was refused", good[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        request.host = bad[i];
        if (check(fixture, &request) != BH_E_WRONG_HOST)
            fail_msg("Host %s was taken", bad[i]);
    }
    fixture->gate.allowed_count = 0;
}

static void tokens_and_scopes(void **state)
{
    struct fixture *fixture = *state;
    struct bh_gate_request get = plain(fixture, BH_METHOD_GET, "/v1/jobs");
    struct bh_gate_request kill = plain(fixture, BH_METHOD_POST, "/v1/jobs/x/kill");
    struct bh_gate_request post = plain(fixture, BH_METHOD_POST, "/v1/jobs");
    static const char *const bad[] = {"",
                                      "Bearer",
                                      "Bearer ",
                                      "Bearer x",
                                      "Basic abc",
                                      "Bearer other-token-0123456789",
                                      "Bearer short"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        get.authorization = bad[i];
        if (check(fixture, &get) != BH_E_UNAUTHORIZED)
            fail_msg("\"%s\" was taken", bad[i]);
    }
    get.authorization = NULL;
    assert_int_equal(check(fixture, &get), BH_E_UNAUTHORIZED);
    get.authorization = kill.authorization = post.authorization = "bearer read-token-0123456789";
    assert_int_equal(check(fixture, &get), 0);
    assert_int_equal(check(fixture, &kill), BH_E_FORBIDDEN_SCOPE);
    get.authorization = kill.authorization = post.authorization = "Bearer second-control-token-9";
    assert_int_equal(check(fixture, &get), 0);
    assert_int_equal(check(fixture, &kill), 0);
    assert_int_equal(check(fixture, &post), BH_E_FORBIDDEN_SCOPE);
    post.authorization = fixture->bearer;
    assert_int_equal(check(fixture, &post), 0);
}

static void order_of_checks(void **state)
{
    struct fixture *fixture = *state;
    struct bh_gate_request request = plain(fixture, BH_METHOD_POST, "/v1/nothing");
    request.host = "evil";
    request.authorization = NULL;
    request.origin = "http://evil";
    request.content_type = "text/plain";
    assert_int_equal(check(fixture, &request), BH_E_WRONG_HOST);
    request.host = "127.0.0.1:7373";
    assert_int_equal(check(fixture, &request), BH_E_UNAUTHORIZED);
    request.authorization = fixture->bearer;
    assert_int_equal(check(fixture, &request), BH_E_FORBIDDEN_ORIGIN);
    request.origin = NULL;
    assert_int_equal(check(fixture, &request), BH_E_NOT_FOUND);
    request.path = "/v1/jobs/x/kill";
    request.authorization = "Bearer read-token-0123456789";
    assert_int_equal(check(fixture, &request), BH_E_FORBIDDEN_SCOPE);
    request.method = BH_METHOD_PUT;
    assert_int_equal(check(fixture, &request), BH_E_METHOD);
    request.method = BH_METHOD_POST;
    request.authorization = fixture->bearer;
    assert_int_equal(check(fixture, &request), BH_E_MEDIA_TYPE);
    request.content_type = "application/json; charset=utf-8";
    assert_int_equal(check(fixture, &request), 0);
}

static void accepted_answers(void **state)
{
    struct fixture *fixture = *state;
    struct bh_gate_request request = plain(fixture, BH_METHOD_GET, "/v1/jobs");
    static const char *const good[] = {"",
                                       "*/*",
                                       "application/json",
                                       "APPLICATION/JSON; charset=utf-8",
                                       "text/html, application/*;q=0.5",
                                       "text/html,*/*;q=0.8"};
    static const char *const bad[] = {"text/html", "image/png, text/*", "application/json;q=0",
                                      "application/json; q=0.00, text/html", "application/jsonx"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        request.accept = good[i];
        if (check(fixture, &request) < 0)
            fail_msg("Accept: %s was refused", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        request.accept = bad[i];
        if (check(fixture, &request) != BH_E_NOT_ACCEPTABLE)
            fail_msg("Accept: %s was taken", bad[i]);
    }
    request.path = "/v1/events"; /* a type of its own */
    assert_int_equal(check(fixture, &request), 0);
}

static void origins(void **state)
{
    struct fixture *fixture = *state;
    struct bh_gate_request request = plain(fixture, BH_METHOD_POST, "/v1/jobs");
    static const char *const bad[] = {"null",
                                      "http://localhost:7373",
                                      "https://127.0.0.1:7373",
                                      "http://127.0.0.1",
                                      "http://127.0.0.1:7373.evil.example",
                                      ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        request.origin = bad[i];
        if (check(fixture, &request) != BH_E_FORBIDDEN_ORIGIN)
            fail_msg("Origin %s was taken", bad[i]);
    }
    request.origin = "http://127.0.0.1:7373";
    assert_int_equal(check(fixture, &request), 0);
    request.fetch_site = "cross-site";
    assert_int_equal(check(fixture, &request), BH_E_FORBIDDEN_ORIGIN);
    request.fetch_site = "same-site";
    assert_int_equal(check(fixture, &request), BH_E_FORBIDDEN_ORIGIN);
    request.fetch_site = "same-origin";
    assert_int_equal(check(fixture, &request), 0);
    request = plain(fixture, BH_METHOD_GET, "/v1/jobs");
    request.origin = "http://evil.example"; /* ignored on GET: it can read nothing without CORS */
    assert_int_equal(check(fixture, &request), 0);
}

static void sessions(void **state)
{
    struct fixture *fixture = *state;
    struct bh_wall now = {1000000};
    struct bh_session session;
    char code[BH_AUTH_SECRET_SIZE];
    char cookie[160];
    assert_int_equal(bh_auth_new_code(fixture->auth, now, code), 0);
    assert_int_equal(bh_auth_login(fixture->auth, "wrong", now, &session, NULL),
                     BH_E_LOGIN_REFUSED);
    struct bh_wall late = {now.us + BH_AUTH_CODE_US};
    assert_int_equal(bh_auth_login(fixture->auth, code, late, &session, NULL), BH_E_LOGIN_REFUSED);
    assert_int_equal(bh_auth_login(fixture->auth, code, now, &session, NULL), 0);
    struct bh_session second;
    assert_int_equal(bh_auth_login(fixture->auth, code, now, &second, NULL), BH_E_LOGIN_REFUSED);

    struct bh_gate_request get = plain(fixture, BH_METHOD_GET, "/v1/jobs");
    struct bh_gate_request post = plain(fixture, BH_METHOD_POST, "/v1/jobs");
    (void)snprintf(cookie, sizeof cookie, "a=b; bulkhead_7373=%s; c=d", session.cookie);
    get.authorization = post.authorization = NULL;
    get.cookie = post.cookie = cookie;
    assert_int_equal(check(fixture, &get), 0);
    assert_int_equal(check(fixture, &post), BH_E_FORBIDDEN_ORIGIN); /* no Origin, no token */
    post.origin = "http://127.0.0.1:7373";
    assert_int_equal(check(fixture, &post), BH_E_CSRF);
    post.csrf = session.cookie;
    assert_int_equal(check(fixture, &post), BH_E_CSRF);
    post.csrf = session.csrf;
    assert_int_equal(check(fixture, &post), 0);
    get.port = 7374; /* another server's cookie */
    get.host = "127.0.0.1:7374";
    assert_int_equal(check(fixture, &get), BH_E_UNAUTHORIZED);
    /* a wrong token is not mended by a right cookie */
    post.authorization = "Bearer nonsense-nonsense";
    assert_int_equal(check(fixture, &post), BH_E_UNAUTHORIZED);

    struct bh_auth *again = NULL; /* sessions outlive a restart, codes do not */
    bool csrf_ok = false;
    assert_int_equal(bh_auth_open(fixture->fd, &again, NULL), 0);
    assert_true(bh_auth_cookie(again, cookie, 7373, session.csrf, now, &csrf_ok));
    assert_true(csrf_ok);
    struct bh_wall expired = {session.expires_at.us};
    assert_false(bh_auth_cookie(again, cookie, 7373, session.csrf, expired, &csrf_ok));
    bh_auth_close(again);
}

static void failed_logins_are_limited(void **state)
{
    struct fixture *fixture = *state;
    struct bh_wall now = {900000000};
    struct bh_session session;
    char code[BH_AUTH_SECRET_SIZE];
    assert_int_equal(bh_auth_new_code(fixture->auth, now, code), 0);
    for (int i = 0; i < BH_AUTH_LOGIN_RATE; i++)
        assert_int_equal(bh_auth_login(fixture->auth, "no", now, &session, NULL),
                         BH_E_LOGIN_REFUSED);
    assert_int_equal(bh_auth_login(fixture->auth, code, now, &session, NULL), BH_E_RATE);
    now.us += 61000000;
    assert_int_equal(bh_auth_login(fixture->auth, code, now, &session, NULL), 0);
}

static void sockets_go_by_uid(void **state)
{
    struct fixture *fixture = *state;
    struct bh_gate_request request = {.local = true,
                                      .uid_known = true,
                                      .uid = 1000,
                                      .method = BH_METHOD_POST,
                                      .path = "/v1/jobs",
                                      .has_body = true,
                                      .content_type = "application/json"};
    assert_int_equal(check(fixture, &request), 0);
    request.uid = 0;
    assert_int_equal(check(fixture, &request), 0);
    request.uid = 1001;
    assert_int_equal(check(fixture, &request), BH_E_FORBIDDEN_UID);
    request.uid = 1000;
    request.uid_known = false;
    assert_int_equal(check(fixture, &request), BH_E_FORBIDDEN_UID);
    request.uid_known = true;
    request.content_type = "text/plain";
    assert_int_equal(check(fixture, &request), BH_E_MEDIA_TYPE);
}

static void rate_is_bounded(void **state)
{
    struct fixture *fixture = *state;
    struct bh_gate_request request = plain(fixture, BH_METHOD_GET, "/v1/jobs");
    struct bh_gate_pass pass;
    struct bh_wall now = {1};
    struct bh_mono mono = {5000000000};
    int refused = 0;
    fixture->gate.rate = 100;
    for (int i = 0; i < 150; i++)
        refused += bh_gate_check(&fixture->gate, &request, now, mono, &pass, NULL) == BH_E_RATE;
    assert_int_equal(refused, 50);
    mono.ns += 500000000;
    refused = 0;
    for (int i = 0; i < 60; i++)
        refused += bh_gate_check(&fixture->gate, &request, now, mono, &pass, NULL) == BH_E_RATE;
    assert_int_equal(refused, 10);
    fixture->gate.rate = 0;
}

static void open_paths_need_no_token(void **state)
{
    struct fixture *fixture = *state;
    struct bh_gate_request request = plain(fixture, BH_METHOD_GET, "/livez");
    request.authorization = NULL;
    assert_int_equal(check(fixture, &request), 0);
    request.path = "/metrics";
    assert_int_equal(check(fixture, &request), BH_E_UNAUTHORIZED);
    fixture->gate.metrics_open = true;
    assert_int_equal(check(fixture, &request), 0);
    fixture->gate.metrics_open = false;
    request.path = "/app.js";
    assert_int_equal(check(fixture, &request), BH_E_UNAUTHORIZED);
    request.is_static = true;
    assert_int_equal(check(fixture, &request), 0);
    request.method = BH_METHOD_OPTIONS;
    assert_int_equal(check(fixture, &request), BH_E_METHOD);
    request.host = "evil.example";
    assert_int_equal(check(fixture, &request), BH_E_WRONG_HOST);
}

static void token_file_is_private(void **state)
{
    struct fixture *fixture = *state;
    struct stat st;
    assert_int_equal(fstatat(fixture->fd, "token", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 65);
    write_file(fixture->fd, "tokenx", "short");
    assert_int_equal(renameat(fixture->fd, "tokenx", fixture->fd, "token"), 0);
    char token[BH_AUTH_SECRET_SIZE];
    assert_int_equal(bh_auth_read_token(fixture->fd, token, NULL), BH_E_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts),
        cmocka_unit_test(tunnelled_hosts),
        cmocka_unit_test(tokens_and_scopes),
        cmocka_unit_test(order_of_checks),
        cmocka_unit_test(accepted_answers),
        cmocka_unit_test(origins),
        cmocka_unit_test(sessions),
        cmocka_unit_test(failed_logins_are_limited),
        cmocka_unit_test(sockets_go_by_uid),
        cmocka_unit_test(rate_is_bounded),
        cmocka_unit_test(open_paths_need_no_token),
        cmocka_unit_test(token_file_is_private),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
