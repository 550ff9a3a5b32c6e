/* The encoders of the two headers of events.bhe, for the writer and for tests. Layout: evlog.h. */
#ifndef BH_WIRE_EVLOG_LAYOUT_H
#define BH_WIRE_EVLOG_LAYOUT_H

#include "core/wire/evlog.h"

void bh_evlog_header_encode(const struct bh_evlog_header *header,
                            unsigned char ret_bytes[static BH_EVLOG_HEADER_BYTES]);
/* Fills the segment header from all members; checksums body. ret_bytes may lie right before body.
 */
void bh_evlog_segment_encode(const struct bh_evlog_segment *segment,
                             unsigned char ret_bytes[static BH_EVLOG_HEADER_BYTES]);

#endif
