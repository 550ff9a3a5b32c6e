/* A run's journal as events for the policy: "what would another limit have done".
 *
 * The journal holds a second of samples as least, greatest and last, so a replay is that exact,
 * with two readings told precisely: the first one at or above the run's own limit, and the one that
 * the run decided on. A span becomes its least reading at its begin, its greatest at its time and
 * its last at its end; a span without any usable reading becomes its unusable ones. A samples file
 * (full rate, the last minute) becomes every reading it holds. The end of the tree is
 * process_exited.
 *
 * Time 0 is the launch (without one, the header's anchor); clock gaps are left out, as the
 * supervisor left them out. What follows the point where the replayed policy acts is what the run
 * did, not what would have followed. */
#ifndef BH_API_REPLAY_JOURNAL_H
#define BH_API_REPLAY_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "core/model/policy.h"

/* Events in the order of their times. Zero-initialise; release with bh_policy_replay_journal_done.
 */
struct bh_policy_replay_journal {
    struct bh_policy_event *events; /* owned */
    size_t count;
};

#define BH_REPLAY_SAMPLES_FILES 2

/* Descriptors are borrowed and read with pread; samples_fds (NULL allowed) may hold -1, and a file
 * that is damaged or another run's is left out. A journal that ends early gives what it holds; one
 * that is corrupt gives what lies before, and the error. Other failures: no header (MALFORMED,
 * TRUNCATED, CHECKSUM, VERSION), NOMEM, IO; then nothing is given. */
int bh_policy_replay_journal_load(int fd, const int *samples_fds,
                                  struct bh_policy_replay_journal *ret_journal,
                                  struct bh_diag *diag);
void bh_policy_replay_journal_done(struct bh_policy_replay_journal *journal);

#endif
