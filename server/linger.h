/* Lingering close: a request is answered before its body was read, and the library closes the
 * connection. With unread bytes in the socket the kernel would reset it, and a client that is still
 * sending would lose our answer. So a second descriptor of the socket is kept, and what comes is
 * read and dropped, until the client closes, for at most BH_LINGER_MS and BH_LINGER_BYTES. Loop
 * thread. */
#ifndef BH_SERVER_LINGER_H
#define BH_SERVER_LINGER_H

#include <uv.h>

#define BH_LINGER_MS    3000u
#define BH_LINGER_BYTES (64u << 20)
#define BH_LINGER_MAX   32u /* at once; more are closed the hard way */

/* fd is borrowed and duplicated. Failures are nobody's: the client then may see a reset. */
void bh_linger(uv_loop_t *loop, int fd, unsigned *count);

#endif
