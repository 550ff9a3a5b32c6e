/* From the command line or a run directory to a running loop, and from its end to an exit status.
 */
#ifndef BH_SUPER_BOOT_H
#define BH_SUPER_BOOT_H

#include "core/super/options.h"

/* `run` and `observe`: returns the exit status (core/model/report.md, section 4). */
int bh_boot_run(struct bh_options *options);
/* `start RUNDIR`: returns once the job runs (0) or the typed failure's exit status. */
int bh_boot_start(const char *path);

#endif
