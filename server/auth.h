/* Who may do what over TCP: bearer tokens, login codes and page sessions (api/api.md, section 3).
 * Loop thread only. Tokens are read once at start; sessions are kept in <state>/sessions (0600), so
 * that a page stays logged in when the server is restarted.
 *
 * Secrets are compared in constant time and never logged. Failures: errno ones with a diag;
 * BH_E_LOGIN_REFUSED, BH_E_RATE. */
#ifndef BH_SERVER_AUTH_H
#define BH_SERVER_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "api/api_types.h"
#include "core/base/clock.h"

#define BH_AUTH_SECRET_SIZE  65 /* 256 bits in hexadecimal and the terminator */
#define BH_AUTH_CODE_US      (10ll * 60 * 1000000)
#define BH_AUTH_SESSION_US   (12ll * 3600 * 1000000)
#define BH_AUTH_MAX_TOKENS   64
#define BH_AUTH_MAX_CODES    16
#define BH_AUTH_MAX_SESSIONS 64
#define BH_AUTH_LOGIN_RATE   20 /* failed ones a minute */

struct bh_auth;

struct bh_session {
    char cookie[BH_AUTH_SECRET_SIZE];
    char csrf[BH_AUTH_SECRET_SIZE];
    struct bh_wall expires_at;
};

/* Reads <state>/token (made on first run, 0600), <state>/tokens/NAME.{read,control,launch} and
 * <state>/sessions. state_fd is borrowed for the life of the object. */
int bh_auth_open(int state_fd, struct bh_auth **ret_auth, struct bh_diag *diag);
void bh_auth_close(struct bh_auth *auth);
/* Only the token file, for --print-token: made when it is not there. */
int bh_auth_read_token(int state_fd, char ret_token[static BH_AUTH_SECRET_SIZE],
                       struct bh_diag *diag);

/* What the value of an Authorization header allows: BH_SCOPE_OPEN when nothing. */
enum bh_scope bh_auth_bearer(const struct bh_auth *auth, const char *header);
/* Whether a Cookie header holds a live session of this port. *ret_csrf_ok: csrf (NULL allowed) is
 * the session's. */
bool bh_auth_cookie(const struct bh_auth *auth, const char *header, uint16_t port, const char *csrf,
                    struct bh_wall now, bool *ret_csrf_ok);

/* A fresh login code; the oldest goes when there are too many. */
int bh_auth_new_code(struct bh_auth *auth, struct bh_wall now,
                     char ret_code[static BH_AUTH_SECRET_SIZE]);
/* Trades a code for a session. A wrong code uses nothing up, and counts against the rate. */
int bh_auth_login(struct bh_auth *auth, const char *code, struct bh_wall now,
                  struct bh_session *ret_session, struct bh_diag *diag);

#endif
