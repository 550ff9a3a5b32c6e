#include "core/super/checkpoint_look.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/io.h"
#include "core/platform/platform.h"
#include "core/super/checkpoint_file.h"
#include "core/super/twin.h"

/* ---- the decider's side ---- */

int bh_look_open(int *ret_decider_fd, int *ret_helper_fd)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return bh_err_from_errno(errno);
    int result = bh_io_set_nonblocking(fds[0]);
    if (result < 0) {
        (void)close(fds[0]);
        (void)close(fds[1]);
        return result;
    }
    *ret_decider_fd = fds[0];
    *ret_helper_fd = fds[1];
    return BH_OK;
}

static size_t request_bytes(uint32_t count)
{
    return offsetof(struct bh_look_request, processes) + count * sizeof(struct bh_look_process);
}

int bh_look_ask(int fd, const struct bh_look_request *request)
{
    ssize_t n = send(fd, request, request_bytes(request->count), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0)
        return BH_OK;
    return errno == EAGAIN || errno == ENOBUFS ? BH_E_AGAIN : BH_E_CLOSED;
}

int bh_look_hear(int fd, struct bh_look_answer *ret_answer)
{
    struct bh_look_answer answer;
    ssize_t n = recv(fd, &answer, sizeof answer, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : BH_E_CLOSED;
    if (n != (ssize_t)sizeof answer)
        return BH_E_CLOSED;
    *ret_answer = answer;
    return 1;
}

/* ---- the helper ---- */

/* In memory that the standby shares, so that it goes on where the one before it died. */
struct look {
    bool active;
    uint64_t id;
    struct bh_checkpoint_mark before, last;
    struct bh_mono last_changed;
};

struct looker {
    int fd, cwd_fd;
    const char *path;
    struct look *look;
};

static void answer(const struct looker *looker, const struct bh_look_answer *words)
{
    (void)send(looker->fd, words, sizeof *words, MSG_NOSIGNAL);
}

static void find_python(const struct bh_look_request *request, struct bh_look_answer *words)
{
    for (uint32_t i = 0; i < request->count; i++) {
        const struct bh_look_process *process = &request->processes[i];
        if (process->python ||
            bh_platform_maps_file(process->pid, process->start_token, "libpython") == 1) {
            words->pid = process->pid;
            words->start_token = process->start_token;
            return;
        }
    }
}

static void begin(const struct looker *looker, const struct bh_look_request *request)
{
    struct look *look = looker->look;
    struct bh_look_answer words = {.kind = BH_LOOK_MARKED, .id = request->id};
    look->active = false;
    /* what lies there now is no answer to this request */
    bh_checkpoint_file_mark(looker->cwd_fd, looker->path, &look->before);
    look->last = look->before;
    look->last_changed = bh_clock_mono();
    look->id = request->id;
    look->active = true;
    find_python(request, &words);
    answer(looker, &words);
}

static void take_request(const struct looker *looker, const struct bh_look_request *request,
                         size_t length)
{
    if (length < request_bytes(0) || request->count > BH_LOOK_PROCESSES ||
        length != request_bytes(request->count))
        return;
    if (request->kind == BH_LOOK_BEGIN)
        begin(looker, request);
    else if (request->kind == BH_LOOK_END && request->id == looker->look->id)
        looker->look->active = false;
}

static void look_again(const struct looker *looker)
{
    struct look *look = looker->look;
    struct bh_mono now = bh_clock_mono();
    struct bh_checkpoint_mark mark, after;
    bh_checkpoint_file_mark(looker->cwd_fd, looker->path, &mark);
    if (!bh_checkpoint_mark_equal(&mark, &look->last)) {
        look->last = mark;
        look->last_changed = now;
        return;
    }
    if (!mark.exists || bh_checkpoint_mark_equal(&mark, &look->before) ||
        now.ns - look->last_changed.ns < BH_LOOK_STABLE_MS * BH_NS_PER_MS ||
        !bh_checkpoint_file_whole(looker->cwd_fd, looker->path))
        return;
    bh_checkpoint_file_mark(looker->cwd_fd, looker->path, &after);
    if (!bh_checkpoint_mark_equal(&mark, &after))
        return; /* it went on while it was read: the next look waits anew */
    look->active = false;
    answer(looker, &(struct bh_look_answer){.kind = BH_LOOK_FOUND,
                                            .id = look->id,
                                            .artifact_kind = mark.directory ? 2 : 1,
                                            .size_bytes = mark.size_bytes});
}

void bh_look_serve(int fd, int cwd_fd, const char *path)
{
    struct bh_look_request request;
    struct bh_twin standby = BH_TWIN_NONE;
    struct looker looker = {.fd = fd, .cwd_fd = cwd_fd, .path = path};
    looker.look =
        mmap(NULL, sizeof *looker.look, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (looker.look == MAP_FAILED)
        _exit(1);
    for (;;) {
        if (bh_twin_wait(&standby, fd, looker.look->active ? BH_LOOK_PERIOD_MS : -1) == 1)
            continue;
        ssize_t n = recv(fd, &request, sizeof request, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            break; /* the decider is gone */
        if (n > 0)
            take_request(&looker, &request, (size_t)n);
        else if (looker.look->active)
            look_again(&looker);
    }
    bh_twin_release(&standby);
    _exit(0);
}
