#include "server/auth.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/scoped.h"
#include "core/base/text.h"

#define TOKEN_NAME    "token"
#define TOKENS_NAME   "tokens"
#define SESSIONS_NAME "sessions"
#define MAX_TOKEN     256

struct token {
    char text[MAX_TOKEN + 1]; /* zero padded, so that comparing always takes the whole array */
    enum bh_scope scope;
};

struct code {
    char text[BH_AUTH_SECRET_SIZE];
    struct bh_wall expires_at;
};

struct bh_auth {
    int state_fd; /* borrowed */
    struct token tokens[BH_AUTH_MAX_TOKENS];
    unsigned token_count;
    struct code codes[BH_AUTH_MAX_CODES];
    struct bh_session sessions[BH_AUTH_MAX_SESSIONS];
    struct bh_wall failed_since; /* the minute that failures are counted in */
    unsigned failed;
};

static int make_secret(char ret_text[static BH_AUTH_SECRET_SIZE])
{
    unsigned char bytes[32];
    int result = bh_random_bytes(bytes, sizeof bytes);
    if (result >= 0)
        bh_text_hex(bytes, sizeof bytes, ret_text);
    return result;
}

/* Compares whole arrays of one size; the texts are zero padded. */
static bool same(const char *left, const char *right, size_t size)
{
    return bh_text_equal_secret(left, right, size);
}

static int add_token(struct bh_auth *auth, const char *text, size_t length, enum bh_scope scope)
{
    if (length < 16 || length > MAX_TOKEN || auth->token_count == BH_AUTH_MAX_TOKENS)
        return BH_E_RANGE;
    struct token *token = &auth->tokens[auth->token_count++];
    memcpy(token->text, text, length);
    token->scope = scope;
    return BH_OK;
}

/* A token that others could read is none: whether they did cannot be known. */
static int check_private(int state_fd, struct bh_diag *diag)
{
    struct stat st;
    if (fstatat(state_fd, TOKEN_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0 || !(st.st_mode & 077))
        return BH_OK; /* a missing one is made */
    return bh_err_set(diag, BH_E_UNSAFE_PATH, NULL,
                      "others can read the token file; remove it to get a new token");
}

int bh_auth_read_token(int state_fd, char ret_token[static BH_AUTH_SECRET_SIZE],
                       struct bh_diag *diag)
{
    struct bh_bytes text = {0};
    int result = check_private(state_fd, diag);
    if (result >= 0)
        result = bh_io_read_file(state_fd, TOKEN_NAME, 1024, &text, diag);
    if (result == BH_E_NOT_FOUND) {
        char secret[BH_AUTH_SECRET_SIZE + 1];
        result = make_secret(secret);
        if (result < 0)
            return bh_err_set(diag, result, NULL, "the kernel gives no random bytes");
        memcpy(ret_token, secret, BH_AUTH_SECRET_SIZE);
        secret[BH_AUTH_SECRET_SIZE - 1] = '\n';
        return bh_io_replace(state_fd, TOKEN_NAME, secret, BH_AUTH_SECRET_SIZE, true, diag);
    }
    if (result >= 0) {
        size_t length = strcspn((char *)text.data, "\r\n");
        if (length != BH_AUTH_SECRET_SIZE - 1)
            result =
                bh_err_set(diag, BH_E_MALFORMED, NULL,
                           "the token file must hold 64 characters; remove it to get a new one");
        else
            (void)snprintf(ret_token, BH_AUTH_SECRET_SIZE, "%.64s", (char *)text.data);
    }
    bh_bytes_done(&text);
    return result;
}

static enum bh_scope scope_of_file(const char *name)
{
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name)
        return BH_SCOPE_OPEN;
    if (strcmp(dot, ".read") == 0)
        return BH_SCOPE_READ;
    if (strcmp(dot, ".control") == 0)
        return BH_SCOPE_CONTROL;
    return strcmp(dot, ".launch") == 0 ? BH_SCOPE_LAUNCH : BH_SCOPE_OPEN;
}

static void read_scope_file(struct bh_auth *auth, int dirfd, const char *name, enum bh_scope scope)
{
    struct bh_bytes text = {0};
    struct bh_diag diag = {0};
    if (bh_io_read_file(dirfd, name, 65536, &text, &diag) < 0) {
        bh_log(BH_LOG_WARNING, "a token file is left out: %s", diag.detail);
        return;
    }
    char *save = NULL;
    for (char *line = strtok_r((char *)text.data, "\r\n", &save); line;
         line = strtok_r(NULL, "\r\n", &save)) {
        if (add_token(auth, line, strlen(line), scope) < 0)
            bh_log(BH_LOG_WARNING,
                   "a token has fewer than 16 or more than 256 characters, or there "
                   "are too many; left out");
    }
    bh_bytes_done(&text);
}

static void read_scope_files(struct bh_auth *auth)
{
    int fd = -1;
    if (bh_io_open_dir(auth->state_fd, TOKENS_NAME, &fd, NULL) < 0)
        return;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return;
    }
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        enum bh_scope scope = scope_of_file(entry->d_name);
        if (scope != BH_SCOPE_OPEN)
            read_scope_file(auth, dirfd(dir), entry->d_name, scope);
    }
    (void)closedir(dir);
}

static void read_sessions(struct bh_auth *auth)
{
    struct bh_bytes text = {0};
    if (bh_io_read_file(auth->state_fd, SESSIONS_NAME, 65536, &text, NULL) < 0)
        return;
    unsigned count = 0;
    char *save = NULL;
    for (char *line = strtok_r((char *)text.data, "\n", &save);
         line && count < BH_AUTH_MAX_SESSIONS; line = strtok_r(NULL, "\n", &save)) {
        struct bh_session session = {0};
        uint64_t expires = 0;
        if (strlen(line) < 131 || line[64] != ' ' || line[129] != ' ' ||
            bh_text_u64(line + 130, "sessions", INT64_MAX, &expires, NULL) < 0)
            continue;
        memcpy(session.cookie, line, 64);
        memcpy(session.csrf, line + 65, 64);
        session.expires_at.us = (int64_t)expires;
        auth->sessions[count++] = session;
    }
    bh_bytes_done(&text);
}

static void write_sessions(struct bh_auth *auth, struct bh_wall now)
{
    struct bh_bytes text = {0};
    struct bh_diag diag = {0};
    for (unsigned i = 0; i < BH_AUTH_MAX_SESSIONS; i++) {
        const struct bh_session *session = &auth->sessions[i];
        if (session->expires_at.us > now.us)
            bh_bytes_printf(&text, "%s %s %lld\n", session->cookie, session->csrf,
                            (long long)session->expires_at.us);
    }
    /* not synced: a page that has to log in again after a power cut is no harm */
    if (!text.failed &&
        bh_io_replace(auth->state_fd, SESSIONS_NAME, text.data, text.length, false, &diag) < 0)
        bh_log(BH_LOG_WARNING, "sessions are not kept over a restart: %s", diag.detail);
    bh_bytes_done(&text);
}

int bh_auth_open(int state_fd, struct bh_auth **ret_auth, struct bh_diag *diag)
{
    struct bh_auth *auth = calloc(1, sizeof *auth);
    char token[BH_AUTH_SECRET_SIZE];
    if (!auth)
        return BH_E_NOMEM;
    auth->state_fd = state_fd;
    int result = bh_auth_read_token(state_fd, token, diag);
    if (result < 0) {
        free(auth);
        return result;
    }
    (void)add_token(auth, token, strlen(token), BH_SCOPE_LAUNCH);
    read_scope_files(auth);
    read_sessions(auth);
    *ret_auth = auth;
    return BH_OK;
}

void bh_auth_close(struct bh_auth *auth)
{
    free(auth);
}

enum bh_scope bh_auth_bearer(const struct bh_auth *auth, const char *header)
{
    char given[MAX_TOKEN + 1] = "";
    enum bh_scope scope = BH_SCOPE_OPEN;
    if (!header || strncasecmp(header, "Bearer ", 7) != 0)
        return BH_SCOPE_OPEN;
    header += 7;
    while (*header == ' ')
        header++;
    size_t length = strlen(header);
    if (length == 0 || length > MAX_TOKEN)
        return BH_SCOPE_OPEN;
    memcpy(given, header, length);
    for (unsigned i = 0; i < auth->token_count; i++) {
        /* no early end: the time must not tell which one was nearly right */
        if (same(given, auth->tokens[i].text, sizeof given) && auth->tokens[i].scope > scope)
            scope = auth->tokens[i].scope;
    }
    return scope;
}

/* Finds the value of one cookie in a Cookie header; false unless it has exactly 64 characters. */
static bool find_cookie(const char *header, uint16_t port,
                        char ret_value[static BH_AUTH_SECRET_SIZE])
{
    char name[32];
    int length = snprintf(name, sizeof name, "bulkhead_%u=", (unsigned)port);
    while (header && *header) {
        while (*header == ' ' || *header == ';')
            header++;
        size_t size = strcspn(header, ";");
        if (strncmp(header, name, (size_t)length) == 0 &&
            size == (size_t)length + BH_AUTH_SECRET_SIZE - 1) {
            memcpy(ret_value, header + length, BH_AUTH_SECRET_SIZE - 1);
            ret_value[BH_AUTH_SECRET_SIZE - 1] = '\0';
            return true;
        }
        header += size;
    }
    return false;
}

bool bh_auth_cookie(const struct bh_auth *auth, const char *header, uint16_t port, const char *csrf,
                    struct bh_wall now, bool *ret_csrf_ok)
{
    char value[BH_AUTH_SECRET_SIZE];
    char given[BH_AUTH_SECRET_SIZE] = "";
    bool found = false;
    *ret_csrf_ok = false;
    if (!find_cookie(header, port, value))
        return false;
    if (csrf && strlen(csrf) == BH_AUTH_SECRET_SIZE - 1)
        memcpy(given, csrf, BH_AUTH_SECRET_SIZE);
    for (unsigned i = 0; i < BH_AUTH_MAX_SESSIONS; i++) {
        const struct bh_session *session = &auth->sessions[i];
        if (session->expires_at.us <= now.us || !same(value, session->cookie, sizeof value))
            continue;
        found = true;
        *ret_csrf_ok = same(given, session->csrf, sizeof given);
    }
    return found;
}

int bh_auth_new_code(struct bh_auth *auth, struct bh_wall now,
                     char ret_code[static BH_AUTH_SECRET_SIZE])
{
    struct code *oldest = &auth->codes[0];
    char text[BH_AUTH_SECRET_SIZE];
    int result = make_secret(text);
    if (result < 0)
        return result;
    for (unsigned i = 1; i < BH_AUTH_MAX_CODES; i++) {
        if (auth->codes[i].expires_at.us < oldest->expires_at.us)
            oldest = &auth->codes[i];
    }
    memcpy(oldest->text, text, sizeof text);
    memcpy(ret_code, text, sizeof text);
    oldest->expires_at.us = now.us + BH_AUTH_CODE_US;
    return BH_OK;
}

static bool take_code(struct bh_auth *auth, const char *code, struct bh_wall now)
{
    char given[BH_AUTH_SECRET_SIZE] = "";
    bool found = false;
    if (strlen(code) == BH_AUTH_SECRET_SIZE - 1)
        memcpy(given, code, BH_AUTH_SECRET_SIZE);
    for (unsigned i = 0; i < BH_AUTH_MAX_CODES; i++) {
        struct code *entry = &auth->codes[i];
        if (entry->expires_at.us <= now.us || !same(given, entry->text, sizeof given))
            continue;
        *entry = (struct code){0};
        found = true;
    }
    return found;
}

static struct bh_session *free_session(struct bh_auth *auth)
{
    struct bh_session *oldest = &auth->sessions[0];
    for (unsigned i = 1; i < BH_AUTH_MAX_SESSIONS; i++) {
        if (auth->sessions[i].expires_at.us < oldest->expires_at.us)
            oldest = &auth->sessions[i];
    }
    return oldest;
}

int bh_auth_login(struct bh_auth *auth, const char *code, struct bh_wall now,
                  struct bh_session *ret_session, struct bh_diag *diag)
{
    struct bh_session session = {.expires_at = {now.us + BH_AUTH_SESSION_US}};
    if (now.us - auth->failed_since.us >= 60ll * 1000000) {
        auth->failed_since = now;
        auth->failed = 0;
    }
    if (auth->failed >= BH_AUTH_LOGIN_RATE)
        return bh_err_set(diag, BH_E_RATE, NULL,
                          "Too many failed logins. Wait a minute, then use a fresh link.");
    if (!take_code(auth, code, now)) {
        auth->failed++;
        return bh_err_set(
            diag, BH_E_LOGIN_REFUSED, NULL,
            "The code is wrong, used up or older than 10 minutes. Get a fresh link with "
            "bulkheadd --login-link.");
    }
    int result = make_secret(session.cookie);
    if (result >= 0)
        result = make_secret(session.csrf);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "the kernel gives no random bytes");
    *free_session(auth) = session;
    *ret_session = session;
    write_sessions(auth, now);
    return BH_OK;
}
