#include "core/super/foreground.h"

#include <signal.h>
#include <unistd.h>

int bh_foreground_terminal(void)
{
    if (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp())
        return -1;
    return STDIN_FILENO;
}

static void give_terminal(struct bh_loop *loop, int group)
{
    sigset_t stop, before;
    if (loop->terminal_fd < 0)
        return;
    /* from the background this call itself raises SIGTTOU */
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTTOU);
    (void)sigprocmask(SIG_BLOCK, &stop, &before);
    (void)tcsetpgrp(loop->terminal_fd, group);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

void bh_foreground_take_back(struct bh_loop *loop)
{
    give_terminal(loop, loop->own_group);
}

static void signal_members(struct bh_loop *loop, int inside, int outside)
{
    for (size_t i = 0; i < loop->members.count; i++) {
        const struct bh_member *member = &loop->members.items[i];
        int signal = member->left_session ? outside : inside;
        if (!member->zombie)
            (void)loop->os->proc_signal(loop->os->self, &member->proc, signal);
    }
}

void bh_foreground_stop(struct bh_loop *loop)
{
    if (!loop->run->foreground)
        return;
    /* nobody may grow while nobody looks; a process outside the session is in an orphaned group,
     * where SIGTSTP does nothing */
    signal_members(loop, SIGTSTP, SIGSTOP);
    bh_foreground_take_back(loop);
    (void)raise(SIGSTOP);
    if (loop->terminal_fd >= 0 && tcgetpgrp(loop->terminal_fd) == loop->own_group)
        give_terminal(loop, loop->members.root_group);
    signal_members(loop, SIGCONT, SIGCONT);
}

void bh_foreground_continue(struct bh_loop *loop)
{
    if (loop->run->foreground)
        signal_members(loop, SIGCONT, SIGCONT);
}

void bh_foreground_child_changed(struct bh_loop *loop)
{
    if (loop->terminal_fd >= 0 && !loop->root_exited &&
        loop->os->child_stopped(loop->os->self, loop->members.root_pid))
        bh_foreground_stop(loop);
}
