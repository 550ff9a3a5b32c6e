/* One record of events.bhe as bytes: shared by the writer, the cursor and the server, which keeps
 * the definitions of a trace apart. Pure. */
#ifndef BH_WIRE_EVLOG_RECORD_H
#define BH_WIRE_EVLOG_RECORD_H

#include "core/wire/evlog.h"

/* No record is longer: a STRING of BH_EVLOG_STRING_BYTES or a STACK of BH_EVLOG_MAX_DEPTH frames,
 * with room for their varints. */
#define BH_EVLOG_RECORD_BYTES (BH_EVLOG_STRING_BYTES + 64)
/* Of all but STRING and STACK: head, shape and at most ten varints, three of them 32 bits wide. */
#define BH_EVLOG_SMALL_RECORD_BYTES 96

/* The running values that deltas are taken from; zero at a segment's start, but time_ns, which is
 * the segment header's time. */
struct bh_evlog_running {
    uint64_t sequence, time_ns, address;
    uint32_t image, thread;
};

/* Encodes into BH_EVLOG_RECORD_BYTES and moves the running values. Returns the length, or
 * BH_E_INVALID_VALUE for a kind that does not exist or a stack that is too deep; a longer string is
 * cut between two characters. */
int bh_evlog_record_encode(struct bh_evlog_running *running, const struct bh_evlog_record *record,
                           unsigned char ret_data[static BH_EVLOG_RECORD_BYTES]);

bool bh_evlog_kind_has_sequence(enum bh_evlog_kind kind); /* it is an event */
bool bh_evlog_kind_has_time(enum bh_evlog_kind kind);
bool bh_evlog_kind_defines(enum bh_evlog_kind kind);

#endif
