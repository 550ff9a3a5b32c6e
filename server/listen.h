/* Listening sockets: the unix socket in the state directory and TCP on loopback. Descriptors are
 * non-blocking and cloexec, the caller's. */
#ifndef BH_SERVER_LISTEN_H
#define BH_SERVER_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

/* Path "…/bulkhead.sock", 0600; a leftover of a dead server is replaced (the caller holds the state
 * lock). Refuses a path above 107 bytes with BH_E_TOO_LONG. */
int bh_listen_unix(const char *path, int *ret_fd, struct bh_diag *diag);
/* "127.0.0.1:7373", "[::1]:0", "localhost:80". BH_E_PERMISSION for an address that is not loopback
 * unless insecure; BH_E_EXISTS when the port is taken. */
int bh_listen_tcp(const char *address, bool insecure, int *ret_fd, uint16_t *ret_port,
                  struct bh_diag *diag);

#endif
