#include "server/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "core/base/io.h"
#include "core/base/scoped.h"

static const char request[] = "POST /v1/login-link HTTP/1.1\r\nHost: localhost\r\n"
                              "Content-Length: 0\r\nConnection: close\r\n\r\n";

static int connect_to(const char *path, int *ret_fd, struct bh_diag *diag)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = 5};
    if (strlen(path) >= sizeof address.sun_path)
        return bh_err_set(diag, BH_E_TOO_LONG, "socket", "the socket's path is too long");
    memcpy(address.sun_path, path, strlen(path) + 1);
    BH_SCOPED_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return bh_err_sys(diag, errno, "no socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return bh_err_set(diag, BH_E_NOT_FOUND, NULL,
                          "no server answers at this state directory; start bulkheadd first");
    *ret_fd = bh_scoped_take_fd(&fd);
    return BH_OK;
}

int bh_ask_login_link(const char *socket_path, char *ret_url, size_t size, struct bh_diag *diag)
{
    char text[8192];
    size_t used = 0;
    BH_SCOPED_FD int fd = -1;
    int result = connect_to(socket_path, &fd, diag);
    if (result >= 0)
        result = bh_io_write_full(fd, request, sizeof request - 1);
    if (result < 0)
        return result;
    ssize_t n;
    while (used < sizeof text - 1 && (n = recv(fd, text + used, sizeof text - 1 - used, 0)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    /* our own server's compact answer: {"url":"http://…"} */
    static const char mark[] = "{\"url\":\"";
    const char *start = strstr(text, mark);
    const char *end = start ? strchr(start + sizeof mark - 1, '"') : NULL;
    if (!end)
        return bh_err_set(diag, BH_E_UNSUPPORTED, NULL,
                          "the server gave no link; has it a TCP "
                          "listener?");
    (void)snprintf(ret_url, size, "%.*s", (int)(end - start - (long)sizeof mark + 1),
                   start + sizeof mark - 1);
    return BH_OK;
}
