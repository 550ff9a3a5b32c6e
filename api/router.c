#include "api/router.h"

#include <stdio.h>
#include <string.h>

#include "api/handlers.h"

#define BH_ROUTE(method, pattern, handler, scope, body, answer)                                    \
    {BH_METHOD_##method, pattern, BH_SCOPE_##scope, BH_BODY_##body, BH_ANSWER_##answer,            \
     bh_handle_##handler},
static const struct bh_route routes[] = {
#include "api/routes.def"
};
#undef BH_ROUTE
#define ROUTE_COUNT (sizeof routes / sizeof routes[0])

static const char *const method_names[] = {"GET",    "POST",    "PUT",  "PATCH",
                                           "DELETE", "OPTIONS", "OTHER"};

const char *bh_method_text(enum bh_method method)
{
    return method_names[method];
}

enum bh_method bh_method_from_text(const char *text)
{
    if (strcmp(text, "HEAD") == 0)
        return BH_METHOD_GET;
    for (int i = BH_METHOD_GET; i < BH_METHOD_OTHER; i++) {
        if (strcmp(text, method_names[i]) == 0)
            return (enum bh_method)i;
    }
    return BH_METHOD_OTHER;
}

const struct bh_route *bh_router_all(size_t *ret_count)
{
    *ret_count = ROUTE_COUNT;
    return routes;
}

/* Compares a path with a pattern; {id} takes one segment of 1 to 64 bytes. */
static bool matches(const char *pattern, const char *path, char *ret_id)
{
    ret_id[0] = '\0';
    while (*pattern) {
        if (strncmp(pattern, "{id}", 4) != 0) {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        size_t length = strcspn(path, "/");
        if (length == 0 || length >= BH_API_ID_SIZE)
            return false;
        memcpy(ret_id, path, length);
        ret_id[length] = '\0';
        pattern += 4;
        path += length;
    }
    return *path == '\0';
}

static bool matches_or_alias(const char *pattern, const char *path, char *ret_id)
{
    if (matches(pattern, path, ret_id))
        return true;
    /* "/jobs…" stands for "/v1/jobs…" */
    return strncmp(pattern, "/v1/jobs", 8) == 0 && matches(pattern + 3, path, ret_id);
}

static void add_allowed(const char *name, char *allow, size_t size)
{
    size_t used = strlen(allow);
    (void)snprintf(allow + used, size - used, "%s%s", used ? ", " : "", name);
}

int bh_router_match(enum bh_method method, const char *path, const struct bh_route **ret_route,
                    char *ret_id, char *ret_allow, size_t allow_size)
{
    bool known = false;
    ret_allow[0] = '\0';
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        char id[BH_API_ID_SIZE];
        if (!matches_or_alias(routes[i].pattern, path, id))
            continue;
        if (routes[i].method == method) {
            memcpy(ret_id, id, sizeof id);
            *ret_route = &routes[i];
            return BH_OK;
        }
        known = true;
        add_allowed(method_names[routes[i].method], ret_allow, allow_size);
        if (routes[i].method == BH_METHOD_GET)
            add_allowed("HEAD", ret_allow, allow_size);
    }
    return known ? BH_E_METHOD : BH_E_NOT_FOUND;
}
