/* The report's correlation_hash: equal in two reports when command and directory were the same, and
 * silent about what they were. A hash of the arguments alone would not do: whoever holds a report
 * could try guesses until one fits. So it is keyed, with 16 random bytes that stay with the user:
 * `correlation.key` (0600) in the state directory, made by the first supervisor that finds such a
 * directory. Called by the decider before launch; may block, may allocate. */
#ifndef BH_SUPER_CORRELATION_H
#define BH_SUPER_CORRELATION_H

#include "core/super/super.h"

#define BH_CORRELATION_KEY_NAME "correlation.key"

/* "" where there is no state directory (the foreground makes none) or no key can be kept in it. The
 * state directory is the one around the run directory, else $XDG_STATE_HOME/bulkhead or
 * ~/.local/state/bulkhead. */
void bh_correlation_hash(const struct bh_run *run, char ret_text[static BH_CORRELATION_SIZE]);

#endif
