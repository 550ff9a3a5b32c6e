#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/scoped.h"
#include "core/base/text.h"

#define BACKLOG 128

int bh_listen_unix(const char *path, int *ret_fd, struct bh_diag *diag)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return bh_err_set(
            diag, BH_E_TOO_LONG, "socket",
            "the socket's path has more than %zu bytes; use a shorter --state or --socket",
            sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    BH_SCOPED_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return bh_err_sys(diag, errno, "no unix socket");
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return bh_err_set(diag, BH_E_EXISTS, "socket", "%s exists and is no socket",
                          bh_text_basename(path));
    (void)unlink(path);
    mode_t before = umask(0177);
    int bound = bind(fd, (const struct sockaddr *)&address, sizeof address);
    int error = errno;
    (void)umask(before);
    if (bound < 0)
        return bh_err_sys(diag, error, "cannot bind the unix socket");
    if (listen(fd, BACKLOG) < 0)
        return bh_err_sys(diag, errno, "cannot listen on the unix socket");
    *ret_fd = bh_scoped_take_fd(&fd);
    return BH_OK;
}

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t length;
    bool loopback;
};

static int parse(const char *text, struct address *ret_address, struct bh_diag *diag)
{
    char host[64];
    uint64_t port = 0;
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (!colon || length == 0 || length >= sizeof host ||
        bh_text_u64(colon + 1, "listen", 65535, &port, NULL) < 0)
        return bh_err_set(diag, BH_E_USAGE, "listen",
                          "--listen wants ADDRESS:PORT, like 127.0.0.1:7373 or [::1]:0");
    memcpy(host, text, length);
    host[length] = '\0';
    if (strcmp(host, "localhost") == 0)
        (void)snprintf(host, sizeof host, "127.0.0.1");
    *ret_address = (struct address){0};
    if (host[0] == '[' && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = '\0';
        ret_address->v6.sin6_family = AF_INET6;
        ret_address->v6.sin6_port = htons((uint16_t)port);
        ret_address->length = sizeof ret_address->v6;
        if (inet_pton(AF_INET6, host + 1, &ret_address->v6.sin6_addr) == 1) {
            ret_address->loopback = IN6_IS_ADDR_LOOPBACK(&ret_address->v6.sin6_addr);
            return BH_OK;
        }
    } else {
        ret_address->v4.sin_family = AF_INET;
        ret_address->v4.sin_port = htons((uint16_t)port);
        ret_address->length = sizeof ret_address->v4;
        if (inet_pton(AF_INET, host, &ret_address->v4.sin_addr) == 1) {
            ret_address->loopback = ntohl(ret_address->v4.sin_addr.s_addr) >> 24 == 127;
            return BH_OK;
        }
    }
    return bh_err_set(diag, BH_E_USAGE, "listen", "--listen wants a numeric address or localhost");
}

static int bind_tcp(int fd, const struct address *address, const char *text, struct bh_diag *diag)
{
    int one = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address->any.sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, &address->any, address->length) < 0) {
        if (errno == EADDRINUSE)
            return bh_err_set(
                diag, BH_E_EXISTS, "listen",
                "%s is taken, maybe by another user's server; choose another port with "
                "--listen 127.0.0.1:PORT (0 = any free one)",
                text);
        return bh_err_sys(diag, errno, "cannot bind %s", text);
    }
    if (listen(fd, BACKLOG) < 0)
        return bh_err_sys(diag, errno, "cannot listen on %s", text);
    return BH_OK;
}

int bh_listen_tcp(const char *text, bool insecure, int *ret_fd, uint16_t *ret_port,
                  struct bh_diag *diag)
{
    struct address address;
    int result = parse(text, &address, diag);
    if (result < 0)
        return result;
    if (!address.loopback && !insecure)
        return bh_err_set(
            diag, BH_E_PERMISSION, "listen",
            "%s is not loopback: everybody on the network could try the token. Use an ssh "
            "tunnel, or give --insecure-listen too",
            text);
    BH_SCOPED_FD int fd =
        socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return bh_err_sys(diag, errno, "no TCP socket");
    result = bind_tcp(fd, &address, text, diag);
    if (result < 0)
        return result;
    if (getsockname(fd, &address.any, &address.length) < 0)
        return bh_err_sys(diag, errno, "cannot read the port");
    *ret_port =
        ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
    *ret_fd = bh_scoped_take_fd(&fd);
    return BH_OK;
}
