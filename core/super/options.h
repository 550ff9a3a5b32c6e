/* The command line of `run` and `observe` (supervision.md, section 9): strict, everything wrong is
 * one sentence that names the option, and nothing is launched. */
#ifndef BH_SUPER_OPTIONS_H
#define BH_SUPER_OPTIONS_H

#include "core/model/job.h"

struct bh_options {
    struct bh_job_spec spec; /* resolved; points into argv */
    const char *run_dir;     /* NULL = a temporary one */
    const char *report;      /* NULL = none */
    bool quiet, json, help;
};

/* argv[0] is the verb, "run" or "observe". BH_E_USAGE for the shape of the line, BH_E_INVALID_VALUE
 * and BH_E_INVALID_CONFIG for values; diag->field is the option ("--limit"). */
int bh_options_parse(int argc, char **argv, struct bh_options *ret_options, struct bh_diag *diag);
/* The option that stands for a member of the API's spec ("breach/count" -> "--breaches"), or the
 * member itself. */
const char *bh_options_for_member(const char *member);
/* Lines of --help for all options, onto a stream descriptor. */
void bh_options_help(int fd);

#endif
