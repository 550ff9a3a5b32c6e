/* Tracebacks as JSON, [[filename, function, line], …] outermost first, each distinct one made once.
 */
#ifndef BH_VIZ_TRACEBACK_H
#define BH_VIZ_TRACEBACK_H

#include "core/viz/dictionary.h"

struct bh_traceback_cache {
    const struct bh_dictionary *dictionary; /* borrowed */
    struct bh_bytes text;
    struct {
        size_t offset, length;
    } * entries; /* by stack key; length 0 = not made yet */
    uint32_t count;
};

void bh_traceback_begin(struct bh_traceback_cache *cache, const struct bh_dictionary *dictionary);
void bh_traceback_done(struct bh_traceback_cache *cache);
/* The JSON of a stack, "null" for none; valid until the next call. NULL when memory is out. */
const char *bh_traceback_get(struct bh_traceback_cache *cache, uint32_t stack, size_t *ret_length);

#endif
