#include "core/base/siphash.h"

#include <stdint.h>

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static uint64_t load(const unsigned char *at, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static void store(unsigned char *at, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static void rounds(struct state *s, int count)
{
    while (count-- > 0) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = rotate(s->v1, 13) ^ s->v0;
        s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 = rotate(s->v0, 32);
        s->v2 += s->v1;
        s->v0 += s->v3;
        s->v1 = rotate(s->v1, 17) ^ s->v2;
        s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v2 = rotate(s->v2, 32);
    }
}

static void absorb(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    rounds(s, 2);
    s->v0 ^= word;
}

void bh_siphash(const unsigned char key[static BH_SIPHASH_KEY_BYTES], const void *data,
                size_t length, unsigned char ret_hash[static BH_SIPHASH_BYTES])
{
    const unsigned char *at = data;
    uint64_t k0 = load(key, 8), k1 = load(key + 8, 8);
    struct state s = {.v0 = k0 ^ 0x736f6d6570736575,
                      .v1 = k1 ^ 0x646f72616e646f6d ^ 0xee, /* 0xee: the form with 128 bits */
                      .v2 = k0 ^ 0x6c7967656e657261,
                      .v3 = k1 ^ 0x7465646279746573};
    size_t left = length;
    for (; left >= 8; left -= 8, at += 8)
        absorb(&s, load(at, 8));
    absorb(&s, load(at, left) | (uint64_t)length << 56);
    s.v2 ^= 0xee;
    rounds(&s, 4);
    store(ret_hash, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
    s.v1 ^= 0xdd;
    rounds(&s, 4);
    store(ret_hash + 8, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
}
