/* Control frames and the TLV items in them, with any bytes: nothing is read outside, a decoded
 * frame encodes to the same bytes, and a stream is consumed to its end or refused. */
#include <stdlib.h>
#include <string.h>

#include "core/wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t sum;

static void walk(const unsigned char *body, size_t length, int depth)
{
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    char text[32];
    bh_tlv_open(&reader, body, length);
    while (bh_tlv_next(&reader, &item) == 1) {
        for (size_t i = 0; i < item.length; i++)
            sum += item.value[i];
        if (bh_tlv_copy_text(&item, text, sizeof text) == BH_OK && strlen(text) >= sizeof text)
            abort();
        if (item.kind == BH_TLV_GROUP && depth < 4)
            walk(item.value, item.length, depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char again[BH_FRAME_HEADER_BYTES + BH_FRAME_MAX_BODY];
    struct bh_frame frame;
    int length;
    while ((length = bh_frame_decode(data, size, &frame)) > 0) {
        if ((size_t)length > size || bh_frame_encode(&frame, again, sizeof again) != length ||
            memcmp(again, data, (size_t)length) != 0)
            abort();
        walk(frame.body, frame.body_length, 0);
        data += length;
        size -= (size_t)length;
    }
    return 0;
}
