/* Behaving like a shell's job: the terminal is the job's while it runs, Ctrl-Z stops both, and the
 * last line says how it ended. Used by `run` and `observe` only; everywhere else it does nothing.
 */
#ifndef BH_SUPER_FOREGROUND_H
#define BH_SUPER_FOREGROUND_H

#include "core/super/loop.h"

/* The terminal to hand to the job: standard input when it is one and we are in front, else -1. */
int bh_foreground_terminal(void);
/* Takes the terminal back, at the end or when the job stops. */
void bh_foreground_take_back(struct bh_loop *loop);
/* Stops the whole tree, then ourselves; returns when the shell continues us, with the tree running
 * again and the terminal handed back. */
void bh_foreground_stop(struct bh_loop *loop);
/* SIGCONT came without a stop of ours: passed on. */
void bh_foreground_continue(struct bh_loop *loop);
/* After a child changed its state: the job stopped itself (Ctrl-Z in its terminal). */
void bh_foreground_child_changed(struct bh_loop *loop);

#endif
