#include "core/base/random.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

#include "core/base/err.h"

int bh_random_bytes(void *ret_bytes, size_t length)
{
    unsigned char *at = ret_bytes;
    while (length) {
        ssize_t n = getrandom(at, length, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return BH_E_IO;
        at += n;
        length -= (size_t)n;
    }
    return BH_OK;
}

static void base36(uint64_t value, char *ret_text, size_t width)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    while (width--) {
        ret_text[width] = digits[value % 36];
        value /= 36;
    }
}

int bh_random_job_id(struct bh_wall now, char ret_id[static BH_JOB_ID_SIZE])
{
    uint64_t noise = 0;
    int result = bh_random_bytes(&noise, sizeof noise);
    if (result < 0)
        return result;
    base36((uint64_t)(now.us / 1000), ret_id, 9);
    base36(noise, ret_id + 9, 11);
    ret_id[20] = '\0';
    return BH_OK;
}
