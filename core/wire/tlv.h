/* Tag-length-value items: the body of control frames, spec.bin and journal records.
 *
 *     offset 0  u16 tag       bit 15 set: required, a reader that does not know it refuses the body
 *     offset 2  u16 kind      enum bh_tlv_kind
 *     offset 4  u32 length    of the value
 *     offset 8  value         length bytes, no padding
 *
 * Little-endian. Unknown tags are skipped unless required. U64 and I64 values are 8 bytes; TEXT is
 * UTF-8 without a terminator and without NUL; GROUP holds items itself.
 * The writer fills a caller's array and never allocates; overflow is sticky and checked once. */
#ifndef BH_WIRE_TLV_H
#define BH_WIRE_TLV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

#define BH_TLV_HEADER_BYTES 8
#define BH_TLV_REQUIRED     0x8000u

enum bh_tlv_kind {
    BH_TLV_U64 = 1,
    BH_TLV_I64 = 2,
    BH_TLV_TEXT = 3,
    BH_TLV_BYTES = 4,
    BH_TLV_GROUP = 5,
};

struct bh_tlv_writer {
    unsigned char *data; /* borrowed */
    size_t capacity;
    size_t length;
    bool overflow;
};

void bh_tlv_begin(struct bh_tlv_writer *writer, void *data, size_t capacity);
void bh_tlv_u64(struct bh_tlv_writer *writer, uint16_t tag, uint64_t value);
void bh_tlv_i64(struct bh_tlv_writer *writer, uint16_t tag, int64_t value);
void bh_tlv_bytes(struct bh_tlv_writer *writer, uint16_t tag, const void *data, size_t length);
void bh_tlv_text(struct bh_tlv_writer *writer, uint16_t tag, const char *text); /* NULL: nothing */
/* Opens a group; returns a mark for bh_tlv_group_end. Groups nest. */
size_t bh_tlv_group(struct bh_tlv_writer *writer, uint16_t tag);
void bh_tlv_group_end(struct bh_tlv_writer *writer, size_t mark);

struct bh_tlv_item {
    uint16_t tag; /* without the required bit */
    bool required;
    enum bh_tlv_kind kind;
    const unsigned char *value; /* into the reader's data */
    size_t length;
    uint64_t number; /* of U64; of I64 as two's complement */
};

struct bh_tlv_reader {
    const unsigned char *data; /* borrowed */
    size_t length;
    size_t offset;
};

void bh_tlv_open(struct bh_tlv_reader *reader, const void *data, size_t length);
/* 1 with an item, 0 at the end, BH_E_MALFORMED for anything that does not fit. */
int bh_tlv_next(struct bh_tlv_reader *reader, struct bh_tlv_item *ret_item);
/* Copies a TEXT item, terminated and cut to size; refuses NUL inside (BH_E_MALFORMED). */
int bh_tlv_copy_text(const struct bh_tlv_item *item, char *ret_text, size_t size);

#endif
