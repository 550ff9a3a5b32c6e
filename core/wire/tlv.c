#include "core/wire/tlv.h"

#include <string.h>

#include "core/wire/le.h"

void bh_tlv_begin(struct bh_tlv_writer *writer, void *data, size_t capacity)
{
    *writer = (struct bh_tlv_writer){.data = data, .capacity = capacity};
}

/* Room for one item, its header written; NULL on overflow. */
static unsigned char *put_header(struct bh_tlv_writer *writer, uint16_t tag, enum bh_tlv_kind kind,
                                 size_t length)
{
    size_t left = writer->capacity - writer->length;
    if (writer->overflow || left < BH_TLV_HEADER_BYTES || left - BH_TLV_HEADER_BYTES < length ||
        length > UINT32_MAX) {
        writer->overflow = true;
        return NULL;
    }
    unsigned char *at = writer->data + writer->length;
    bh_le_put16(at, tag);
    bh_le_put16(at + 2, (uint16_t)kind);
    bh_le_put32(at + 4, (uint32_t)length);
    writer->length += BH_TLV_HEADER_BYTES + length;
    return at + BH_TLV_HEADER_BYTES;
}

void bh_tlv_u64(struct bh_tlv_writer *writer, uint16_t tag, uint64_t value)
{
    unsigned char *at = put_header(writer, tag, BH_TLV_U64, 8);
    if (at)
        bh_le_put64(at, value);
}

void bh_tlv_i64(struct bh_tlv_writer *writer, uint16_t tag, int64_t value)
{
    unsigned char *at = put_header(writer, tag, BH_TLV_I64, 8);
    if (at)
        bh_le_put64(at, (uint64_t)value);
}

void bh_tlv_bytes(struct bh_tlv_writer *writer, uint16_t tag, const void *data, size_t length)
{
    unsigned char *at = put_header(writer, tag, BH_TLV_BYTES, length);
    if (at && length)
        memcpy(at, data, length);
}

void bh_tlv_text(struct bh_tlv_writer *writer, uint16_t tag, const char *text)
{
    if (!text)
        return;
    size_t length = strlen(text);
    unsigned char *at = put_header(writer, tag, BH_TLV_TEXT, length);
    if (at && length)
        memcpy(at, text, length);
}

size_t bh_tlv_group(struct bh_tlv_writer *writer, uint16_t tag)
{
    size_t mark = writer->length;
    (void)put_header(writer, tag, BH_TLV_GROUP, 0);
    return mark;
}

void bh_tlv_group_end(struct bh_tlv_writer *writer, size_t mark)
{
    if (!writer->overflow)
        bh_le_put32(writer->data + mark + 4,
                    (uint32_t)(writer->length - mark - BH_TLV_HEADER_BYTES));
}

void bh_tlv_open(struct bh_tlv_reader *reader, const void *data, size_t length)
{
    *reader = (struct bh_tlv_reader){.data = data, .length = length};
}

int bh_tlv_next(struct bh_tlv_reader *reader, struct bh_tlv_item *ret_item)
{
    size_t left = reader->length - reader->offset;
    if (left == 0)
        return 0;
    if (left < BH_TLV_HEADER_BYTES)
        return BH_E_MALFORMED;
    const unsigned char *at = reader->data + reader->offset;
    uint16_t tag = bh_le_get16(at);
    uint16_t kind = bh_le_get16(at + 2);
    uint32_t length = bh_le_get32(at + 4);
    bool number = kind == BH_TLV_U64 || kind == BH_TLV_I64;
    if (kind < BH_TLV_U64 || kind > BH_TLV_GROUP || length > left - BH_TLV_HEADER_BYTES ||
        (number && length != 8))
        return BH_E_MALFORMED;
    *ret_item = (struct bh_tlv_item){
        .tag = (uint16_t)(tag & ~BH_TLV_REQUIRED),
        .required = (tag & BH_TLV_REQUIRED) != 0,
        .kind = (enum bh_tlv_kind)kind,
        .value = at + BH_TLV_HEADER_BYTES,
        .length = length,
        .number = number ? bh_le_get64(at + BH_TLV_HEADER_BYTES) : 0,
    };
    reader->offset += BH_TLV_HEADER_BYTES + length;
    return 1;
}

int bh_tlv_copy_text(const struct bh_tlv_item *item, char *ret_text, size_t size)
{
    if (item->kind != BH_TLV_TEXT || memchr(item->value, 0, item->length))
        return BH_E_MALFORMED;
    size_t n = item->length < size - 1 ? item->length : size - 1;
    memcpy(ret_text, item->value, n);
    ret_text[n] = '\0';
    return BH_OK;
}
