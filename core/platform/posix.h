/* What posix.c offers to the system files of this folder. */
#ifndef BH_PLATFORM_POSIX_H
#define BH_PLATFORM_POSIX_H

#include "core/platform/platform.h"

int bh_posix_launch(void *self, const struct bh_launch *launch, int *ret_pid, struct bh_diag *diag);

#endif
