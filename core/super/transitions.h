/* `run --json`: one compact JSON line per transition, signal, checkpoint and outcome on standard
 * error. Called by the loop as a record tap: it never waits, a line that finds no room is lost, and
 * it allocates nothing. */
#ifndef BH_SUPER_TRANSITIONS_H
#define BH_SUPER_TRANSITIONS_H

#include "core/model/record.h"

void bh_transitions_print(void *context, const struct bh_record *record);
/* The line itself; its length, 0 for kinds that are not printed. */
int bh_transitions_format(const struct bh_record *record, char *ret_line, size_t size);

#endif
