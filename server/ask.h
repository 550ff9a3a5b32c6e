/* One question to the running server over its unix socket, for --login-link. Blocking; main only.
 */
#ifndef BH_SERVER_ASK_H
#define BH_SERVER_ASK_H

#include <stddef.h>

#include "core/base/err.h"

/* POST /v1/login-link; the URL. BH_E_NOT_FOUND when no server listens there. */
int bh_ask_login_link(const char *socket_path, char *ret_url, size_t size, struct bh_diag *diag);

#endif
