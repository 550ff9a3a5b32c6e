/* What can be said of a program before it is launched: whether the preloaded recorder can work in
 * it. A look at the file only; the supervisor finds and runs it. */
#ifndef BH_SERVER_PROGRAM_CHECK_H
#define BH_SERVER_PROGRAM_CHECK_H

#include "core/model/job.h"

enum bh_program {
    BH_PROGRAM_FINE = 0, /* or nothing is known */
    BH_PROGRAM_STATIC,   /* no dynamic linker: nothing can be preloaded */
    BH_PROGRAM_SETUID,   /* the dynamic linker ignores preloads */
};

enum bh_program bh_program_check(const struct bh_job_spec *spec);

#endif
