/* Payload layouts of the records, one table per kind; bh_record_encode and bh_record_decode
 * (journal.h) are written over them. A payload is TLV items, one per member that is not zero; tags
 * are numbered per kind in record_codec_tables.c and never reused. */
#ifndef BH_WIRE_RECORD_CODEC_H
#define BH_WIRE_RECORD_CODEC_H

#include "core/wire/fields.h"

struct bh_record_layout {
    const struct bh_field *fields; /* offsets within struct bh_record */
    size_t count;
};

/* NULL for a kind that this version does not know. */
const struct bh_record_layout *bh_record_layout(int kind);

#endif
