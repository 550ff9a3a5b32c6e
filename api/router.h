/* Path and method to route. Pure; called on the server's loop for every request. */
#ifndef BH_API_ROUTER_H
#define BH_API_ROUTER_H

#include "api/api_types.h"

/* Looks a decoded path up. ret_id (BH_API_ID_SIZE bytes) gets what stands for {id}, or "".
 * BH_OK with ret_route; BH_E_NOT_FOUND; BH_E_METHOD when the path exists for other methods, which
 * ret_allow (allow_size bytes; 64 are enough) then lists: "GET, HEAD, POST". */
int bh_router_match(enum bh_method method, const char *path, const struct bh_route **ret_route,
                    char *ret_id, char *ret_allow, size_t allow_size);

/* All routes, for metrics and tests. */
const struct bh_route *bh_router_all(size_t *ret_count);
/* "GET"; "OTHER" for one that no route has. */
const char *bh_method_text(enum bh_method method);
enum bh_method bh_method_from_text(const char *text);

#endif
