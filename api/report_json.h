/* The server's two looks into report.json: merging the late reclamation readings, and reading the
 * few members of a report that an external job brings. */
#ifndef BH_API_REPORT_JSON_H
#define BH_API_REPORT_JSON_H

#include "api/problem.h"

/* Appends the report with its member `reclamation` replaced by what reclamation.json holds, pretty
 * printed as report.json is. BH_E_MALFORMED when one of them is no JSON object. */
int bh_report_merge(const struct bh_bytes *report, const struct bh_bytes *reclamation,
                    struct bh_bytes *ret_body);

struct bh_report_facts {
    enum bh_outcome_kind outcome;
    enum bh_cause cause;
    char sentence[320];
};
/* Checks schema, version, run.run_id and outcome of a report given by a client. */
int bh_report_read_facts(const void *data, size_t length, const char *id,
                         struct bh_report_facts *ret_facts, struct bh_problem *problem);

#endif
