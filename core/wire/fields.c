#include "core/wire/fields.h"

#include <string.h>

#include "core/model/record.h"
#include "core/wire/le.h"

#define OBSERVED_BYTES 9

static uint64_t load_unsigned(const unsigned char *at, size_t size)
{
    uint64_t wide = 0;
    uint32_t narrow = 0;
    uint16_t half = 0;
    switch (size) {
    case 1:
        return at[0];
    case 2:
        memcpy(&half, at, sizeof half);
        return half;
    case 4:
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    default:
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
}

static void store_unsigned(unsigned char *at, size_t size, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;
    uint16_t half = (uint16_t)value;
    switch (size) {
    case 1:
        at[0] = (unsigned char)value;
        break;
    case 2:
        memcpy(at, &half, sizeof half);
        break;
    case 4:
        memcpy(at, &narrow, sizeof narrow);
        break;
    default:
        memcpy(at, &value, sizeof value);
        break;
    }
}

static int64_t load_signed(const unsigned char *at, size_t size)
{
    int32_t narrow = 0;
    int64_t wide = 0;
    if (size == 4) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static void encode_observed(uint16_t tag, const unsigned char *at, struct bh_tlv_writer *writer)
{
    struct bh_observed observed;
    memcpy(&observed, at, sizeof observed);
    if (observed.status == BH_VALUE_UNKNOWN)
        return;
    unsigned char bytes[OBSERVED_BYTES];
    bytes[0] = (unsigned char)observed.status;
    bh_le_put64(bytes + 1, observed.value);
    bh_tlv_bytes(writer, tag, bytes, sizeof bytes);
}

static void encode_one(const struct bh_field *field, const unsigned char *at,
                       struct bh_tlv_writer *writer)
{
    switch ((enum bh_field_type)field->type) {
    case BH_FIELD_UNSIGNED:
    case BH_FIELD_BOOL:
        if (load_unsigned(at, field->size) != 0)
            bh_tlv_u64(writer, field->tag, load_unsigned(at, field->size));
        break;
    case BH_FIELD_SIGNED:
        if (load_signed(at, field->size) != 0)
            bh_tlv_i64(writer, field->tag, load_signed(at, field->size));
        break;
    case BH_FIELD_TEXT:
        if (at[0] != '\0')
            bh_tlv_text(writer, field->tag, (const char *)at);
        break;
    case BH_FIELD_OBSERVED:
        encode_observed(field->tag, at, writer);
        break;
    }
}

void bh_fields_encode(const struct bh_field *fields, size_t count, const void *structure,
                      struct bh_tlv_writer *writer)
{
    for (size_t i = 0; i < count; i++)
        encode_one(&fields[i], (const unsigned char *)structure + fields[i].offset, writer);
}

static uint64_t unsigned_maximum(const struct bh_field *field)
{
    uint64_t fits = field->size >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * field->size)) - 1;
    return field->maximum != 0 && field->maximum < fits ? field->maximum : fits;
}

static int decode_signed(const struct bh_field *field, const struct bh_tlv_item *item,
                         unsigned char *at)
{
    int64_t value = (int64_t)item->number;
    if (item->kind != BH_TLV_I64)
        return BH_E_MALFORMED;
    if (field->size == 4) {
        if (value < INT32_MIN || value > INT32_MAX)
            return BH_E_MALFORMED;
        int32_t narrow = (int32_t)value;
        memcpy(at, &narrow, sizeof narrow);
    } else {
        memcpy(at, &value, sizeof value);
    }
    return 1;
}

static int decode_observed(const struct bh_tlv_item *item, unsigned char *at)
{
    if (item->kind != BH_TLV_BYTES || item->length != OBSERVED_BYTES ||
        item->value[0] > BH_VALUE_ERROR)
        return BH_E_MALFORMED;
    struct bh_observed observed = {
        .status = (enum bh_value_status)item->value[0],
        .value = bh_le_get64(item->value + 1),
    };
    memcpy(at, &observed, sizeof observed);
    return 1;
}

static int decode_one(const struct bh_field *field, const struct bh_tlv_item *item,
                      unsigned char *at)
{
    switch ((enum bh_field_type)field->type) {
    case BH_FIELD_UNSIGNED:
        if (item->kind != BH_TLV_U64 || item->number > unsigned_maximum(field))
            return BH_E_MALFORMED;
        store_unsigned(at, field->size, item->number);
        return 1;
    case BH_FIELD_BOOL:
        if (item->kind != BH_TLV_U64 || item->number > 1)
            return BH_E_MALFORMED;
        store_unsigned(at, field->size, item->number);
        return 1;
    case BH_FIELD_SIGNED:
        return decode_signed(field, item, at);
    case BH_FIELD_TEXT: {
        int result = bh_tlv_copy_text(item, (char *)at, field->size);
        return result < 0 ? result : 1;
    }
    case BH_FIELD_OBSERVED:
        return decode_observed(item, at);
    }
    return BH_E_MALFORMED;
}

int bh_fields_decode_item(const struct bh_field *fields, size_t count,
                          const struct bh_tlv_item *item, void *ret_structure)
{
    for (size_t i = 0; i < count; i++) {
        if ((fields[i].tag & ~BH_TLV_REQUIRED) == item->tag)
            return decode_one(&fields[i], item, (unsigned char *)ret_structure + fields[i].offset);
    }
    return 0;
}

int bh_fields_decode(const struct bh_field *fields, size_t count, const void *data, size_t length,
                     void *ret_structure)
{
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    bh_tlv_open(&reader, data, length);
    for (;;) {
        int result = bh_tlv_next(&reader, &item);
        if (result <= 0)
            return result;
        result = bh_fields_decode_item(fields, count, &item, ret_structure);
        if (result < 0)
            return result;
        if (result == 0 && item.required)
            return BH_E_VERSION;
    }
}
