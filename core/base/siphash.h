/* SipHash-2-4 with 128 bits of result: a keyed hash. Who lacks the key can neither make nor test a
 * guess at what was hashed. J.-P. Aumasson, D. J. Bernstein, 2012. */
#ifndef BH_BASE_SIPHASH_H
#define BH_BASE_SIPHASH_H

#include <stddef.h>

#define BH_SIPHASH_KEY_BYTES 16
#define BH_SIPHASH_BYTES     16

void bh_siphash(const unsigned char key[static BH_SIPHASH_KEY_BYTES], const void *data,
                size_t length, unsigned char ret_hash[static BH_SIPHASH_BYTES]);

#endif
