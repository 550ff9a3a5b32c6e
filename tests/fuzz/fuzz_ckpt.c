/* Bytes of a worker: the frame decoder must neither read beyond nor accept what it would not write.
 */
#include <stdint.h>
#include <string.h>

#include "core/wire/ckpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bh_ckpt_frame frame;
    int length = bh_ckpt_decode(data, size, &frame);
    if (length > 0) {
        unsigned char again[BH_CKPT_MAX_FRAME];
        BH_BUG_ON(bh_ckpt_encode(&frame, again) != length);
        BH_BUG_ON(memcmp(again, data, (size_t)length) != 0);
    }
    return 0;
}
