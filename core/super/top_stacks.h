/* Who held the memory, for the end of `run --record` in the foreground: the three Python lines that
 * held most when the limit was crossed, or at the peak. Called after the tree is empty and the
 * report is in place, so it may allocate and read. The report itself never holds this (redaction):
 * it goes to the caller's own terminal. */
#ifndef BH_SUPER_TOP_STACKS_H
#define BH_SUPER_TOP_STACKS_H

#include "core/super/super.h"

/* Writes a few lines to fd. BH_E_NO_TRACE when nothing was recorded (nothing is written), or what
 * went wrong with the journal or the event log; the caller says no more about it. */
int bh_top_stacks_print(const struct bh_run *run, int fd);

#endif
