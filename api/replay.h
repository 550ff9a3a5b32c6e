/* `bulkhead-policy replay`: the policy machine fed from files. JSON in, JSON out, exactly as
 * core/model/policy.md, section 4, shows; also used to answer "what would another limit have done"
 * from a run's journal. Single-threaded command line tool; no state beyond the structures here.
 *
 * Failures: BH_E_SYNTAX (not JSON, a duplicate member), BH_E_UNKNOWN_MEMBER, BH_E_MISSING_MEMBER,
 * BH_E_INVALID_VALUE, BH_E_INVALID_CONFIG with diag.field = the key or member; BH_E_NOMEM. Outputs
 * are untouched on failure. Times are ns since run start, sizes bytes. */
#ifndef BH_API_REPLAY_H
#define BH_API_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/bytes.h"
#include "core/base/err.h"
#include "core/model/policy.h"

/* A config object: unknown keys are refused, null means absent, absent keys of section 6 mean the
 * base behaviour. The result is valid (bh_policy_validate). */
int bh_policy_replay_config_parse(const char *text, size_t length,
                                  struct bh_policy_config *ret_config, struct bh_diag *diag);

/* One event object. Unknown members are ignored. */
int bh_policy_replay_event_parse(const char *line, size_t length, struct bh_policy_event *ret_event,
                                 struct bh_diag *diag);

/* Appends the result line of one event, with its newline. */
void bh_policy_replay_result_write(struct bh_bytes *out, const struct bh_policy_config *config,
                                   const struct bh_policy_state *state,
                                   const struct bh_policy_event *event,
                                   const struct bh_policy_actions *actions);

/* A machine on its way through a file. */
struct bh_replay {
    const struct bh_policy_config *config; /* borrowed */
    struct bh_policy_state state;
    struct bh_bytes line; /* owned; the result being written */
    FILE *out;            /* borrowed */
    int samples_fds[2];   /* borrowed; samples files beside a journal, -1 none (as at the start) */
};

void bh_policy_replay_start(struct bh_replay *replay, const struct bh_policy_config *config,
                            FILE *out);
void bh_policy_replay_done(struct bh_replay *replay);
/* Steps the machine and prints the result line. BH_E_IO when the output is gone. */
int bh_policy_replay_feed(struct bh_replay *replay, const struct bh_policy_event *event,
                          struct bh_diag *diag);

/* Reads events from in until its end and prints one line each. A journal is known by its magic.
 * On a bad line ret_line is its number, from 1, blank lines counted; 0 where the failure is not a
 * line's. Lines before it were printed. A journal that is corrupt gives what lies before and its
 * error (CHECKSUM, MALFORMED). */
int bh_policy_replay_run(struct bh_replay *replay, FILE *in, uint64_t *ret_line,
                         struct bh_diag *diag);

#endif
