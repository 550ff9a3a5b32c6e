#include "server/gate.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/router.h"

static bool is_unsafe(enum bh_method method)
{
    return method != BH_METHOD_GET && method != BH_METHOD_OPTIONS;
}

/* Cuts "name:port" (IPv6 in brackets); a missing port is 80, as in HTTP. False when malformed. */
static bool split_host(const char *host, char *ret_name, size_t size, unsigned *ret_port)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    const char *colon = strchr(end ? end : host, ':');
    size_t length = colon ? (size_t)(colon - host) : strlen(host);
    if (length == 0 || length >= size || (host[0] == '[' && !end))
        return false;
    memcpy(ret_name, host, length);
    ret_name[length] = '\0';
    *ret_port = 80;
    if (!colon)
        return true;
    unsigned port = 0;
    size_t digits = 0;
    for (const char *c = colon + 1; *c; c++, digits++) {
        if (*c < '0' || *c > '9' || digits == 5)
            return false;
        port = port * 10 + (unsigned)(*c - '0');
    }
    *ret_port = port;
    return digits > 0 && port <= 65535;
}

static bool host_matches(const char *host, uint16_t own_port, const char *entry)
{
    char name[256];
    char wanted[256];
    unsigned port = 0;
    unsigned wanted_port = own_port;
    if (!split_host(host, name, sizeof name, &port))
        return false;
    const char *colon = strrchr(entry, ':');
    bool with_port = colon && !strchr(colon, ']');
    bool any_port = with_port && strcmp(colon, ":*") == 0;
    if (any_port || !with_port) {
        size_t length = any_port ? (size_t)(colon - entry) : strlen(entry);
        if (length >= sizeof wanted)
            return false;
        memcpy(wanted, entry, length);
        wanted[length] = '\0';
    } else if (!split_host(entry, wanted, sizeof wanted, &wanted_port)) {
        return false;
    }
    return strcasecmp(name, wanted) == 0 && (any_port || port == wanted_port);
}

static bool host_allowed(const struct bh_gate *gate, const char *host, uint16_t port)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < 3; i++) {
        if (host_matches(host, port, own[i]))
            return true;
    }
    for (unsigned i = 0; i < gate->allowed_count; i++) {
        if (host_matches(host, port, gate->allowed[i]))
            return true;
    }
    return false;
}

static int check_host(const struct bh_gate *gate, const struct bh_gate_request *request,
                      struct bh_diag *diag)
{
    bool good = request->host_count == 1 && host_allowed(gate, request->host, request->port) &&
                (!request->authority || host_allowed(gate, request->authority, request->port));
    if (good)
        return BH_OK;
    return bh_err_set(diag, BH_E_WRONG_HOST, NULL,
                      "Use http://127.0.0.1:%u, or start the server with --allow-host NAME.",
                      (unsigned)request->port);
}

static int check_rate(struct bh_gate *gate, struct bh_mono now, struct bh_diag *diag)
{
    if (gate->rate == 0)
        return BH_OK;
    double burst = (double)gate->rate;
    double passed = (double)(now.ns - gate->filled_at.ns) / 1e9;
    gate->tokens += passed * (double)gate->rate;
    if (gate->tokens > burst || gate->filled_at.ns == 0)
        gate->tokens = burst;
    gate->filled_at = now;
    if (gate->tokens < 1.0)
        return bh_err_set(diag, BH_E_RATE, NULL,
                          "More than %llu requests in a second. Wait a second and go on.",
                          (unsigned long long)gate->rate);
    gate->tokens -= 1.0;
    return BH_OK;
}

/* Token or session; ret_bearer tells which. */
static int check_token(const struct bh_gate *gate, const struct bh_gate_request *request,
                       struct bh_wall now, enum bh_scope *ret_scope, bool *ret_bearer,
                       bool *ret_csrf_ok, struct bh_diag *diag)
{
    *ret_bearer = request->authorization != NULL;
    *ret_csrf_ok = false;
    *ret_scope = bh_auth_bearer(gate->auth, request->authorization);
    if (*ret_scope != BH_SCOPE_OPEN)
        return BH_OK;
    if (!*ret_bearer && bh_auth_cookie(gate->auth, request->cookie, request->port, request->csrf,
                                       now, ret_csrf_ok)) {
        *ret_scope = *ret_csrf_ok ? BH_SCOPE_LAUNCH : BH_SCOPE_READ;
        return BH_OK;
    }
    return bh_err_set(
        diag, BH_E_UNAUTHORIZED, NULL,
        "Send Authorization: Bearer with the token from the state directory, or use a "
        "login link (bulkhead open).");
}

static int check_origin(const struct bh_gate_request *request, bool bearer, struct bh_diag *diag)
{
    const char *site = request->fetch_site;
    bool good = !site || strcasecmp(site, "same-origin") == 0 || strcasecmp(site, "none") == 0;
    if (request->origin)
        good = good && strncmp(request->origin, "http://", 7) == 0 &&
               strcasecmp(request->origin + 7, request->host) == 0;
    else
        good = good && bearer;
    if (good)
        return BH_OK;
    return bh_err_set(diag, BH_E_FORBIDDEN_ORIGIN, NULL,
                      "Writes are taken from this server’s own page, or with a bearer token and no "
                      "Origin.");
}

static int check_tcp(struct bh_gate *gate, const struct bh_gate_request *request, bool open,
                     struct bh_wall now, struct bh_mono mono, enum bh_scope *ret_scope,
                     struct bh_diag *diag)
{
    bool bearer = false;
    bool csrf_ok = false;
    int result = check_host(gate, request, diag);
    if (result >= 0)
        result = check_rate(gate, mono, diag);
    if (result < 0)
        return result;
    *ret_scope = BH_SCOPE_OPEN;
    if (!open)
        result = check_token(gate, request, now, ret_scope, &bearer, &csrf_ok, diag);
    if (result >= 0 && is_unsafe(request->method))
        result = check_origin(request, bearer, diag);
    if (result >= 0 && is_unsafe(request->method) && !open && !bearer && !csrf_ok)
        result = bh_err_set(diag, BH_E_CSRF, NULL,
                            "Send X-Bulkhead-CSRF with the value that /v1/login answered.");
    return result;
}

static int check_local(const struct bh_gate *gate, const struct bh_gate_request *request,
                       enum bh_scope *ret_scope, struct bh_diag *diag)
{
    *ret_scope = BH_SCOPE_LAUNCH;
    if (request->uid_known && (request->uid == gate->own_uid || request->uid == 0))
        return BH_OK;
    return bh_err_set(
        diag, BH_E_FORBIDDEN_UID, NULL,
        "This socket is for the user that runs the server. Use the TCP listener with a "
        "token.");
}

static bool is_json(const char *type, size_t length)
{
    return length == 16 && strncasecmp(type, "application/json", 16) == 0;
}

static int check_type(const struct bh_route *route, const struct bh_gate_request *request,
                      struct bh_diag *diag)
{
    const char *type = request->content_type;
    if (route->body == BH_BODY_NONE || !request->has_body)
        return BH_OK;
    size_t length = type ? strcspn(type, "; \t") : 0;
    bool good = is_json(type, length);
    if (route->body == BH_BODY_EVENTS)
        good = good || (length == 20 && strncasecmp(type, "application/x-ndjson", 20) == 0) ||
               (length == 24 && strncasecmp(type, "application/octet-stream", 24) == 0);
    if (good)
        return BH_OK;
    return bh_err_set(diag, BH_E_MEDIA_TYPE, NULL,
                      "Send the body as application/json (curl: --json).");
}

/* Whether one entry of an Accept header, without its parameters, covers application/json. */
static bool covers_json(const char *entry, size_t length)
{
    static const char *const ranges[] = {"*/*", "application/*", "application/json",
                                         "application/problem+json"};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (strlen(ranges[i]) == length && strncasecmp(entry, ranges[i], length) == 0)
            return true;
    }
    return false;
}

static int check_accept(const struct bh_route *route, const char *accept, struct bh_diag *diag)
{
    if (!accept || !*accept || route->answer == BH_ANSWER_ANY)
        return BH_OK;
    while (*accept) {
        accept += strspn(accept, " \t,");
        size_t length = strcspn(accept, ",");
        size_t name = strcspn(accept, ",; \t");
        const char *zero = strstr(accept, "q=0");
        bool refused = zero && zero < accept + length &&
                       strspn(zero + 3, ".0 \t") + 3 == (size_t)(accept + length - zero);
        if (covers_json(accept, name) && !refused)
            return BH_OK;
        accept += length;
    }
    return bh_err_set(diag, BH_E_NOT_ACCEPTABLE, NULL,
                      "This route answers application/json. Accept that.");
}

static int check_route(int match, const struct bh_gate_request *request,
                       const struct bh_gate_pass *pass, struct bh_diag *diag)
{
    if (request->is_static && request->method == BH_METHOD_GET)
        return BH_OK;
    if (match == BH_E_METHOD || request->is_static)
        return bh_err_set(diag, BH_E_METHOD, NULL, "Use %s here.", pass->allow);
    if (match < 0)
        return bh_err_set(diag, BH_E_NOT_FOUND, NULL,
                          "There is nothing at this path. GET /openapi.json lists all routes.");
    return BH_OK;
}

int bh_gate_check(struct bh_gate *gate, const struct bh_gate_request *request, struct bh_wall now,
                  struct bh_mono mono, struct bh_gate_pass *ret_pass, struct bh_diag *diag)
{
    *ret_pass = (struct bh_gate_pass){0};
    int match = bh_router_match(request->method, request->path, &ret_pass->route, ret_pass->id,
                                ret_pass->allow, sizeof ret_pass->allow);
    if (request->is_static)
        (void)snprintf(ret_pass->allow, sizeof ret_pass->allow, "GET, HEAD");
    /* looked up first only to know whether a token is needed; the answer waits for its turn */
    bool open = request->is_static || (match >= 0 && ret_pass->route->scope == BH_SCOPE_OPEN) ||
                (match >= 0 && gate->metrics_open && strcmp(request->path, "/metrics") == 0);
    int result = request->local ? check_local(gate, request, &ret_pass->scope, diag)
                                : check_tcp(gate, request, open, now, mono, &ret_pass->scope, diag);
    if (result >= 0)
        result = check_route(match, request, ret_pass, diag);
    if (result < 0 || request->is_static)
        return result;
    if (!open && ret_pass->scope < ret_pass->route->scope)
        return bh_err_set(diag, BH_E_FORBIDDEN_SCOPE, NULL,
                          "This token may not do that. Use one with a wider scope.");
    result = check_type(ret_pass->route, request, diag);
    return result < 0 ? result : check_accept(ret_pass->route, request->accept, diag);
}
