/* Random bytes from the kernel, and job ids. */
#ifndef BH_BASE_RANDOM_H
#define BH_BASE_RANDOM_H

#include <stddef.h>

#include "core/base/clock.h"

/* Fills the area. BH_E_IO when the kernel gives none (early boot, seccomp). */
int bh_random_bytes(void *ret_bytes, size_t length);

/* 20 characters of [0-9a-z] and the terminator: 9 of base-36 milliseconds since the epoch (time
 * order until the year 5188), 11 random (56 bits). */
#define BH_JOB_ID_SIZE 21
int bh_random_job_id(struct bh_wall now, char ret_id[static BH_JOB_ID_SIZE]);

#endif
