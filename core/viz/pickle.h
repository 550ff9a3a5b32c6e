/* A streaming writer of pickle protocol 4 with the opcodes that PyTorch's viewer decodes, and no
 * other: PROTO STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2
 * LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE EMPTY_LIST APPENDS EMPTY_DICT SETITEMS TUPLE2 MEMOIZE
 * BINGET LONG_BINGET. Lists and dicts are filled in batches of at most 1,000.
 *
 * Bytes are collected and given to the sink in pieces of up to 64 KiB. Errors are sticky: calls
 * after one do nothing and bh_pickle_finish answers it. Nesting is the caller's duty and is
 * checked.
 *
 *     bh_pickle_begin(&pickle, sink);
 *     bh_pickle_dict(&pickle);
 *       bh_pickle_text(&pickle, "segments", 8);   key, then value
 *       bh_pickle_list(&pickle); … bh_pickle_end(&pickle);
 *     bh_pickle_end(&pickle);
 *     error = bh_pickle_finish(&pickle);                                                         */
#ifndef BH_VIZ_PICKLE_H
#define BH_VIZ_PICKLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/viz/sink.h"

#define BH_PICKLE_BATCH     1000
#define BH_PICKLE_MAX_DEPTH 16
#define BH_PICKLE_BUFFER    65536
#define BH_PICKLE_NO_MEMO   UINT32_MAX

struct bh_pickle {
    struct bh_sink sink;
    int error;
    uint32_t memo_count;
    int depth;
    struct {
        bool dict;
        bool open;        /* a MARK without its APPENDS or SETITEMS */
        bool key;         /* dict: the next value is a key */
        uint32_t batched; /* entries since the MARK */
    } level[BH_PICKLE_MAX_DEPTH + 1];
    uint64_t written; /* bytes given to the sink */
    size_t used;
    unsigned char buffer[BH_PICKLE_BUFFER];
};

void bh_pickle_begin(struct bh_pickle *pickle, struct bh_sink sink);
/* STOP and the last piece. Every list and dict must have been ended. */
int bh_pickle_finish(struct bh_pickle *pickle);

void bh_pickle_none(struct bh_pickle *pickle);
void bh_pickle_bool(struct bh_pickle *pickle, bool value);
void bh_pickle_u64(struct bh_pickle *pickle, uint64_t value);
void bh_pickle_i64(struct bh_pickle *pickle, int64_t value);
void bh_pickle_double(struct bh_pickle *pickle, double value);
void bh_pickle_text(struct bh_pickle *pickle, const char *text, size_t length); /* valid UTF-8 */
void bh_pickle_pair(struct bh_pickle *pickle, uint8_t first, uint8_t second);   /* a tuple of two */
void bh_pickle_dict(struct bh_pickle *pickle);
void bh_pickle_list(struct bh_pickle *pickle);
void bh_pickle_end(struct bh_pickle *pickle); /* the innermost dict or list */

/* Puts the value just written (a text, or a dict or list just ended) into the memo and returns its
 * index. bh_pickle_get writes a memoised value again. */
uint32_t bh_pickle_memoize(struct bh_pickle *pickle);
void bh_pickle_get(struct bh_pickle *pickle, uint32_t memo);

#endif
