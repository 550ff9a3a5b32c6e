/* 128-bit arithmetic for products of two 63-bit values; gcc and clang have it on every 64-bit
 * target. __extension__ because -Wpedantic is on. */
#ifndef BH_BASE_WIDE_H
#define BH_BASE_WIDE_H

__extension__ typedef unsigned __int128 bh_u128;

#endif
