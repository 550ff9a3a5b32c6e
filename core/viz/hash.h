/* The hash of all tables of core/viz: splitmix64's finisher. One multiplication is not enough:
 * buffer addresses are arithmetic progressions, which it leaves in clusters (measured: 40 % of a
 * live set's time went into long probes). Not for keys an enemy chooses. */
#ifndef BH_VIZ_HASH_H
#define BH_VIZ_HASH_H

#include <stdint.h>

static inline uint32_t bh_viz_hash(uint64_t key)
{
    key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9ull;
    key = (key ^ key >> 27) * 0x94d049bb133111ebull;
    return (uint32_t)(key ^ key >> 31);
}

#endif
