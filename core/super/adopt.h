/* `bulkhead-supervise adopt RUNDIR`: decider and scribe are both gone, or the machine restarted.
 * Takes the lock, moves what queue.bin still holds into the journal, stops what is left of the tree
 * by the members recorded there (identity checked), drains the rings, and writes the outcome
 * (supervisor_lost, or host_reboot when the boot id differs) and the report. */
#ifndef BH_SUPER_ADOPT_H
#define BH_SUPER_ADOPT_H

#include "core/super/super.h"

/* Exit status for the command line: 0 report is in place, 64 no run directory, 75 someone of ours
 * still lives (the lock is held), 74 the report is lost. One line on stderr says what was done. */
int bh_adopt_main(const char *path);

#endif
