/* Struct members as TLV items, by table: one line per member instead of an encoder and a decoder
 * that must agree. Used by the record codec and spec.bin; decider, scribe, server and tools.
 *
 * A member that is zero (empty text, unknown value) is not written, and a member that is absent is
 * left as the caller initialised it, so that members can be added without a new version. Tables are
 * static; the functions neither allocate nor keep anything. */
#ifndef BH_WIRE_FIELDS_H
#define BH_WIRE_FIELDS_H

#include "core/wire/tlv.h"

enum bh_field_type {
    BH_FIELD_UNSIGNED, /* 1, 2, 4 or 8 bytes; enum; struct bh_mono: item U64, at most `maximum` */
    BH_FIELD_SIGNED,   /* 4 or 8 bytes; struct bh_wall: item I64 */
    BH_FIELD_BOOL,     /* item U64, 0 or 1 */
    BH_FIELD_TEXT,     /* char array, terminated, cut: item TEXT */
    BH_FIELD_OBSERVED, /* struct bh_observed: item BYTES {u8 status, u64 value} */
};

struct bh_field {
    uint16_t tag; /* with BH_TLV_REQUIRED where a reader must know it */
    uint8_t type;
    uint16_t offset;
    uint16_t size;
    uint64_t maximum; /* UNSIGNED: 0 = what fits */
};

#define BH_FIELD(structure, number, kind, member)                                                  \
    {                                                                                              \
        .tag = (number), .type = BH_FIELD_##kind, .offset = offsetof(structure, member),           \
        .size = sizeof(((structure *)0)->member)                                                   \
    }
#define BH_FIELD_UP_TO(structure, number, member, most)                                            \
    {                                                                                              \
        .tag = (number), .type = BH_FIELD_UNSIGNED, .offset = offsetof(structure, member),         \
        .size = sizeof(((structure *)0)->member), .maximum = (most)                                \
    }

/* Writes the members of *structure; overflow is the writer's. */
void bh_fields_encode(const struct bh_field *fields, size_t count, const void *structure,
                      struct bh_tlv_writer *writer);
/* Stores one item. 1 stored, 0 no such tag, BH_E_MALFORMED for a wrong kind or range. */
int bh_fields_decode_item(const struct bh_field *fields, size_t count,
                          const struct bh_tlv_item *item, void *ret_structure);
/* All items of a body; unknown tags are skipped, or BH_E_VERSION when required. */
int bh_fields_decode(const struct bh_field *fields, size_t count, const void *data, size_t length,
                     void *ret_structure);

#endif
