/* Status images with any bytes and a right checksum: what decodes encodes to an image that decodes
 * to the same. */
#include <stdlib.h>
#include <string.h>

#include "core/base/crc32c.h"
#include "core/wire/le.h"
#include "core/wire/status_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char image[BH_STATUS_FILE_BYTES] = {0}, one[BH_STATUS_FILE_BYTES],
                  two[BH_STATUS_FILE_BYTES];
    struct bh_status status;
    (void)bh_status_file_decode(data, size, &status);
    memcpy(image, data, size < sizeof image ? size : sizeof image);
    bh_le_put32(image + 252, bh_crc32c(0, image, 252));
    if (bh_status_file_decode(image, sizeof image, &status) < 0)
        return 0;
    bh_status_file_encode(&status, one);
    if (bh_status_file_decode(one, sizeof one, &status) < 0)
        abort();
    bh_status_file_encode(&status, two);
    if (memcmp(one, two, sizeof one) != 0)
        abort();
    return 0;
}
