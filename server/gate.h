/* The checks that every request passes before a handler sees it, in this order (api/api.md,
 * section 2):
 * uid (socket), Host 421, request rate 429, token 401, Origin and Sec-Fetch 403, CSRF 403, route
 * 404 or 405, scope 403, content type 415, answer type
 * 406. Pure but for the rate bucket: the HTTP layer hands in
 * what the request said.
 *
 * Over the unix socket the peer's uid replaces Host, token and Origin. */
#ifndef BH_SERVER_GATE_H
#define BH_SERVER_GATE_H

#include "api/api_types.h"
#include "server/auth.h"

#define BH_GATE_MAX_HOSTS 8

struct bh_gate {
    const struct bh_auth *auth;             /* borrowed */
    const char *allowed[BH_GATE_MAX_HOSTS]; /* --allow-host, borrowed */
    unsigned allowed_count;
    unsigned own_uid;
    bool metrics_open;
    uint64_t rate; /* TCP requests a second, 0 = no bound */
    double tokens;
    struct bh_mono filled_at;
};

struct bh_gate_request {
    bool local;
    bool uid_known;
    unsigned uid;  /* of the peer, local only */
    uint16_t port; /* listener's */
    enum bh_method method;
    const char *path;
    const char *authority; /* of an absolute-form target; NULL = origin form */
    unsigned host_count;
    const char *host, *origin, *fetch_site, *authorization, *cookie, *csrf, *content_type, *accept;
    bool has_body;
    bool is_static; /* path is in the allow-list of files */
};

struct bh_gate_pass {
    const struct bh_route *route; /* NULL for a static file */
    char id[BH_API_ID_SIZE];
    enum bh_scope scope;
    char allow[64]; /* for 405 */
};

/* BH_OK with ret_pass, or the refusal's error with a diag that says what to do; ret_pass->allow is
 * set with BH_E_METHOD. */
int bh_gate_check(struct bh_gate *gate, const struct bh_gate_request *request, struct bh_wall now,
                  struct bh_mono mono, struct bh_gate_pass *ret_pass, struct bh_diag *diag);

#endif
