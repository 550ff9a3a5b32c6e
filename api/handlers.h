/* One handler per line of routes.def: bh_handle_NAME(call). Reads and checks the request's input,
 * then calls one operation of call->backend, which answers. A handler that refuses answers with a
 * problem itself. Called once per call, on the server's loop, after host, token, origin, scope and
 * content type were checked. */
#ifndef BH_API_HANDLERS_H
#define BH_API_HANDLERS_H

#include "api/api_types.h"

#define BH_ROUTE(method, pattern, handler, scope, body, answer)                                    \
    void bh_handle_##handler(struct bh_call *call);
#include "api/routes.def"
#undef BH_ROUTE

#endif
