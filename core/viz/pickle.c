#include "core/viz/pickle.h"

#include <string.h>

#include "core/base/err.h"
#include "core/wire/le.h"

enum opcode {
    OP_PROTO = 0x80,
    OP_STOP = '.',
    OP_MARK = '(',
    OP_NONE = 'N',
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_LONG1 = 0x8a,
    OP_BINFLOAT = 'G',
    OP_SHORT_BINUNICODE = 0x8c,
    OP_BINUNICODE = 'X',
    OP_EMPTY_LIST = ']',
    OP_APPENDS = 'e',
    OP_EMPTY_DICT = '}',
    OP_SETITEMS = 'u',
    OP_TUPLE2 = 0x86,
    OP_MEMOIZE = 0x94,
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
};

#define PROTOCOL 4

static void flush(struct bh_pickle *pickle)
{
    if (pickle->error >= 0 && pickle->used > 0) {
        int error = pickle->sink.write(pickle->sink.context, pickle->buffer, pickle->used);
        if (error < 0)
            pickle->error = error;
    }
    pickle->written += pickle->used;
    pickle->used = 0;
}

static void put(struct bh_pickle *pickle, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    while (length > sizeof pickle->buffer - pickle->used) {
        size_t part = sizeof pickle->buffer - pickle->used;
        memcpy(pickle->buffer + pickle->used, bytes, part);
        pickle->used += part;
        bytes += part;
        length -= part;
        flush(pickle);
    }
    if (length)
        memcpy(pickle->buffer + pickle->used, bytes, length);
    pickle->used += length;
}

static void put_op(struct bh_pickle *pickle, enum opcode opcode)
{
    unsigned char byte = (unsigned char)opcode;
    put(pickle, &byte, 1);
}

static void close_batch(struct bh_pickle *pickle)
{
    if (pickle->level[pickle->depth].open)
        put_op(pickle, pickle->level[pickle->depth].dict ? OP_SETITEMS : OP_APPENDS);
    pickle->level[pickle->depth].open = false;
    pickle->level[pickle->depth].batched = 0;
}

/* Before any value: opens a batch, and closes a full one first. Not when the value before ended, so
 * that it is still on top for MEMOIZE. */
static void before_value(struct bh_pickle *pickle)
{
    if (pickle->depth == 0)
        return;
    if (pickle->level[pickle->depth].batched == BH_PICKLE_BATCH)
        close_batch(pickle);
    if (!pickle->level[pickle->depth].open)
        put_op(pickle, OP_MARK);
    pickle->level[pickle->depth].open = true;
}

static void after_value(struct bh_pickle *pickle)
{
    if (pickle->depth == 0)
        return;
    if (!pickle->level[pickle->depth].dict) {
        pickle->level[pickle->depth].batched++;
        return;
    }
    bool key = pickle->level[pickle->depth].key;
    pickle->level[pickle->depth].key = !key;
    pickle->level[pickle->depth].batched += !key;
}

static void value(struct bh_pickle *pickle, const void *data, size_t length)
{
    before_value(pickle);
    put(pickle, data, length);
    after_value(pickle);
}

void bh_pickle_begin(struct bh_pickle *pickle, struct bh_sink sink)
{
    static const unsigned char start[] = {OP_PROTO, PROTOCOL};
    pickle->sink = sink;
    pickle->error = BH_OK;
    pickle->memo_count = 0;
    pickle->depth = 0;
    pickle->written = 0;
    pickle->used = 0;
    put(pickle, start, sizeof start);
}

int bh_pickle_finish(struct bh_pickle *pickle)
{
    BH_BUG_ON(pickle->depth != 0);
    put_op(pickle, OP_STOP);
    flush(pickle);
    return pickle->error;
}

void bh_pickle_none(struct bh_pickle *pickle)
{
    value(pickle, (unsigned char[]){OP_NONE}, 1);
}

void bh_pickle_bool(struct bh_pickle *pickle, bool truth)
{
    value(pickle, (unsigned char[]){truth ? OP_NEWTRUE : OP_NEWFALSE}, 1);
}

/* Two's complement in the fewest bytes; sign: 0 or 0xff, what continues the number. */
static void put_long(struct bh_pickle *pickle, uint64_t number, unsigned char sign)
{
    unsigned char bytes[11] = {OP_LONG1};
    unsigned char count = 8;
    bh_le_put64(bytes + 2, number);
    bytes[10] = sign;
    while (count > 1 && bytes[1 + count] == sign && (bytes[count] & 0x80) == (sign & 0x80))
        count--;
    if ((bytes[1 + count] & 0x80) != (sign & 0x80))
        count++;
    bytes[1] = count;
    value(pickle, bytes, 2 + (size_t)count);
}

void bh_pickle_u64(struct bh_pickle *pickle, uint64_t number)
{
    unsigned char bytes[5];
    if (number <= UINT8_MAX) {
        bytes[0] = OP_BININT1;
        bytes[1] = (unsigned char)number;
        value(pickle, bytes, 2);
    } else if (number <= UINT16_MAX) {
        bytes[0] = OP_BININT2;
        bh_le_put16(bytes + 1, (uint16_t)number);
        value(pickle, bytes, 3);
    } else if (number <= INT32_MAX) {
        bytes[0] = OP_BININT;
        bh_le_put32(bytes + 1, (uint32_t)number);
        value(pickle, bytes, 5);
    } else {
        put_long(pickle, number, 0);
    }
}

void bh_pickle_i64(struct bh_pickle *pickle, int64_t number)
{
    if (number >= 0) {
        bh_pickle_u64(pickle, (uint64_t)number);
    } else if (number >= INT32_MIN) {
        unsigned char bytes[5] = {OP_BININT};
        bh_le_put32(bytes + 1, (uint32_t)(int32_t)number);
        value(pickle, bytes, 5);
    } else {
        put_long(pickle, (uint64_t)number, 0xff);
    }
}

void bh_pickle_double(struct bh_pickle *pickle, double number)
{
    unsigned char bytes[9] = {OP_BINFLOAT};
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    for (int i = 0; i < 8; i++) /* big-endian, the one such field of the format */
        bytes[1 + i] = (unsigned char)(bits >> (56 - 8 * i));
    value(pickle, bytes, sizeof bytes);
}

void bh_pickle_text(struct bh_pickle *pickle, const char *text, size_t length)
{
    unsigned char head[5];
    if (length > UINT32_MAX) {
        pickle->error = pickle->error < 0 ? pickle->error : BH_E_TOO_LONG;
        length = 0;
    }
    before_value(pickle);
    if (length <= UINT8_MAX) {
        head[0] = OP_SHORT_BINUNICODE;
        head[1] = (unsigned char)length;
        put(pickle, head, 2);
    } else {
        head[0] = OP_BINUNICODE;
        bh_le_put32(head + 1, (uint32_t)length);
        put(pickle, head, 5);
    }
    put(pickle, text, length);
    after_value(pickle);
}

void bh_pickle_pair(struct bh_pickle *pickle, uint8_t first, uint8_t second)
{
    value(pickle, (unsigned char[]){OP_BININT1, first, OP_BININT1, second, OP_TUPLE2}, 5);
}

static void open_level(struct bh_pickle *pickle, bool dict)
{
    before_value(pickle);
    put_op(pickle, dict ? OP_EMPTY_DICT : OP_EMPTY_LIST);
    BH_BUG_ON(pickle->depth >= BH_PICKLE_MAX_DEPTH);
    pickle->depth++;
    pickle->level[pickle->depth].dict = dict;
    pickle->level[pickle->depth].key = true;
    pickle->level[pickle->depth].open = false;
    pickle->level[pickle->depth].batched = 0;
}

void bh_pickle_dict(struct bh_pickle *pickle)
{
    open_level(pickle, true);
}

void bh_pickle_list(struct bh_pickle *pickle)
{
    open_level(pickle, false);
}

void bh_pickle_end(struct bh_pickle *pickle)
{
    BH_BUG_ON(pickle->depth <= 0);
    BH_BUG_ON(pickle->level[pickle->depth].dict && !pickle->level[pickle->depth].key);
    close_batch(pickle);
    pickle->depth--;
    after_value(pickle);
}

uint32_t bh_pickle_memoize(struct bh_pickle *pickle)
{
    put_op(pickle, OP_MEMOIZE);
    return pickle->memo_count++;
}

void bh_pickle_get(struct bh_pickle *pickle, uint32_t memo)
{
    unsigned char bytes[5];
    if (memo <= UINT8_MAX) {
        bytes[0] = OP_BINGET;
        bytes[1] = (unsigned char)memo;
        value(pickle, bytes, 2);
    } else {
        bytes[0] = OP_LONG_BINGET;
        bh_le_put32(bytes + 1, memo);
        value(pickle, bytes, 5);
    }
}
