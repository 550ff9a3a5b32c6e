/* spec.bin with any body behind a right header: what decodes encodes again, and that decodes to the
 * same. An even first byte leaves the whole file as it is. */
#include <stdlib.h>
#include <string.h>

#include "core/base/crc32c.h"
#include "core/wire/le.h"
#include "core/wire/spec_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const void *data, size_t length)
{
    struct bh_job_spec *spec = NULL, *back = NULL;
    struct bh_bytes one = {0}, two = {0};
    if (bh_spec_file_decode(data, length, &spec, NULL) < 0)
        return;
    if (bh_spec_file_encode(spec, &one, NULL) == BH_OK) {
        if (bh_spec_file_decode(one.data, one.length, &back, NULL) < 0 ||
            bh_spec_file_encode(back, &two, NULL) < 0 || one.length != two.length ||
            memcmp(one.data, two.data, one.length) != 0)
            abort();
        bh_spec_file_free(back);
    }
    (void)bh_job_spec_resolve(spec, NULL);
    bh_spec_file_free(spec);
    bh_bytes_done(&one);
    bh_bytes_done(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if ((data[0] & 1) == 0) {
        decode(data + 1, size - 1);
        return 0;
    }
    size_t body = size - 1;
    unsigned char *file = calloc(1, BH_SPEC_FILE_HEADER_BYTES + body);
    if (!file)
        return 0;
    bh_le_put32(file, BH_SPEC_FILE_MAGIC);
    bh_le_put16(file + 4, BH_SPEC_FILE_VERSION);
    bh_le_put16(file + 6, BH_SPEC_FILE_HEADER_BYTES);
    bh_le_put32(file + 12, (uint32_t)body);
    bh_le_put32(file + 16, bh_crc32c(0, data + 1, body));
    bh_le_put32(file + 20, bh_crc32c(0, file, 20));
    memcpy(file + BH_SPEC_FILE_HEADER_BYTES, data + 1, body);
    decode(file, BH_SPEC_FILE_HEADER_BYTES + body);
    free(file);
    return 0;
}
