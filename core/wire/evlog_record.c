/* Records of events.bhe.
 *
 *     u8 head    bits 0-5 kind, bit 6 cached, bit 7 doubtful
 *     STRING     id, length, bytes
 *     FRAME      id, file, function, line
 *     STACK      id, count, per frame: signed difference to the frame before (first: to 0)
 *     all others u8 shape, then the fields their kind has (the table below), in this order:
 *       sequence   events: present when shape bit 0, signed difference to the last event's + 1;
 *                  LINK: always, last event's sequence minus the linked one, signed
 *       image      when shape bit 1, else the last record's
 *       time       signed difference to the last time
 *       thread     when shape bit 2, else the last record's
 *       address    signed difference to the last address
 *       size
 *       requested  when shape bit 3: signed size minus requested, else equal to size
 *       stack      when shape bit 4, else 0
 *       primitive  when shape bit 5, else 0
 *       stream     when shape bit 6, signed, else -1
 *       count, text, pid (signed), start token, image number
 *     shape bit 7 is 0. "Last" values are those of the same segment. */
#include "core/wire/evlog_record.h"

#include <limits.h>
#include <string.h>

enum {
    F_SEQUENCE = 1 << 0,
    F_TIME = 1 << 1,
    F_THREAD = 1 << 2,
    F_ADDRESS = 1 << 3, /* and size */
    F_REQUESTED = 1 << 4,
    F_STACK = 1 << 5, /* and primitive, stream */
    F_COUNT = 1 << 6,
    F_TEXT = 1 << 7,
    F_PROCESS = 1 << 8, /* pid, start token, image number */
    F_LINK = 1 << 9,
    F_DEFINITION = 1 << 10,
    F_KNOWN = 1 << 11,
};

#define F_BUFFER (F_KNOWN | F_SEQUENCE | F_TIME | F_THREAD | F_ADDRESS | F_REQUESTED | F_STACK)

static const uint16_t FIELDS[64] = {
    [BH_EVLOG_ALLOC_NEW] = F_BUFFER,
    [BH_EVLOG_ALLOC_REUSE] = F_BUFFER,
    [BH_EVLOG_ALLOC_MAKE_BUFFER] = F_BUFFER,
    [BH_EVLOG_FREE_TO_CACHE] = F_BUFFER,
    [BH_EVLOG_FREE_TO_OS] = F_BUFFER,
    [BH_EVLOG_RELEASE] = F_BUFFER,
    [BH_EVLOG_CACHE_TO_OS] = F_BUFFER,
    [BH_EVLOG_BASELINE] = F_BUFFER,
    [BH_EVLOG_LOST] = F_KNOWN | F_SEQUENCE | F_TIME | F_ADDRESS | F_COUNT,
    [BH_EVLOG_MARK] = F_KNOWN | F_SEQUENCE | F_TIME | F_TEXT,
    [BH_EVLOG_LINK] = F_KNOWN | F_LINK | F_STACK,
    [BH_EVLOG_IMAGE] = F_KNOWN | F_TIME | F_TEXT | F_PROCESS,
    [BH_EVLOG_IMAGE_END] = F_KNOWN | F_TIME,
    [BH_EVLOG_STRING] = F_KNOWN | F_DEFINITION,
    [BH_EVLOG_FRAME] = F_KNOWN | F_DEFINITION,
    [BH_EVLOG_STACK] = F_KNOWN | F_DEFINITION,
    [BH_EVLOG_BASELINE_BEGIN] = F_KNOWN | F_TIME | F_ADDRESS | F_COUNT,
    [BH_EVLOG_OFF] = F_KNOWN | F_TIME | F_ADDRESS,
    [BH_EVLOG_HOLE] = F_KNOWN | F_COUNT,
    [BH_EVLOG_FULL] = F_KNOWN | F_TIME | F_COUNT,
    [BH_EVLOG_TAKEN] = F_KNOWN | F_COUNT,
};

enum {
    SHAPE_SEQUENCE = 1 << 0,
    SHAPE_IMAGE = 1 << 1,
    SHAPE_THREAD = 1 << 2,
    SHAPE_REQUESTED = 1 << 3,
    SHAPE_STACK = 1 << 4,
    SHAPE_PRIMITIVE = 1 << 5,
    SHAPE_STREAM = 1 << 6,
    SHAPE_RESERVED = 1 << 7,
};

#define HEAD_KIND     0x3fu
#define HEAD_CACHED   0x40u
#define HEAD_DOUBTFUL 0x80u

bool bh_evlog_kind_has_sequence(enum bh_evlog_kind kind)
{
    return (unsigned)kind < 64 && (FIELDS[kind] & F_SEQUENCE);
}

bool bh_evlog_kind_has_time(enum bh_evlog_kind kind)
{
    return (unsigned)kind < 64 && (FIELDS[kind] & F_TIME);
}

bool bh_evlog_kind_defines(enum bh_evlog_kind kind)
{
    return (unsigned)kind < 64 && (FIELDS[kind] & (F_DEFINITION | F_PROCESS));
}

/* ---- encoding ---- */

static unsigned char *put_varint(unsigned char *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    *at++ = (unsigned char)value;
    return at;
}

/* Signed values travel as the two's complement of a 64-bit difference: it wraps, never overflows.
 */
static unsigned char *put_signed(unsigned char *at, uint64_t difference)
{
    uint64_t sign = difference >> 63 ? UINT64_MAX : 0;
    return put_varint(at, (difference << 1) ^ sign);
}

static size_t cut_at_character(const char *text, size_t length)
{
    if (length <= BH_EVLOG_STRING_BYTES)
        return length;
    size_t cut = BH_EVLOG_STRING_BYTES;
    for (int i = 0; i < 3 && cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80; i++)
        cut--;
    return cut;
}

static unsigned char *put_definition(unsigned char *at, const struct bh_evlog_record *record)
{
    if (record->kind == BH_EVLOG_STRING) {
        size_t length = cut_at_character(record->string, record->string_length);
        at = put_varint(at, record->id);
        at = put_varint(at, length);
        if (length)
            memcpy(at, record->string, length);
        return at + length;
    }
    if (record->kind == BH_EVLOG_FRAME) {
        at = put_varint(at, record->id);
        at = put_varint(at, record->file);
        at = put_varint(at, record->function);
        return put_varint(at, record->line);
    }
    at = put_varint(at, record->stack);
    at = put_varint(at, record->frame_count);
    uint64_t last = 0;
    for (uint32_t i = 0; i < record->frame_count; i++) {
        at = put_signed(at, record->frames[i] - last);
        last = record->frames[i];
    }
    return at;
}

static unsigned char *put_order(unsigned char *at, unsigned char *shape, unsigned fields,
                                struct bh_evlog_running *running,
                                const struct bh_evlog_record *record)
{
    if (fields & F_SEQUENCE) {
        if (record->sequence != running->sequence + 1) {
            *shape |= SHAPE_SEQUENCE;
            at = put_signed(at, record->sequence - running->sequence - 1);
        }
        running->sequence = record->sequence;
    }
    if (fields & F_LINK)
        at = put_signed(at, running->sequence - record->sequence);
    if (record->image != running->image) {
        *shape |= SHAPE_IMAGE;
        at = put_varint(at, record->image);
        running->image = record->image;
    }
    if (fields & F_TIME) {
        at = put_signed(at, record->at.ns - running->time_ns);
        running->time_ns = record->at.ns;
    }
    if ((fields & F_THREAD) && record->thread != running->thread) {
        *shape |= SHAPE_THREAD;
        at = put_varint(at, record->thread);
        running->thread = record->thread;
    }
    return at;
}

static unsigned char *put_buffer(unsigned char *at, unsigned char *shape, unsigned fields,
                                 struct bh_evlog_running *running,
                                 const struct bh_evlog_record *record)
{
    if (fields & F_ADDRESS) {
        at = put_signed(at, record->address - running->address);
        at = put_varint(at, record->size_bytes);
        running->address = record->address;
    }
    if ((fields & F_REQUESTED) && record->requested_bytes != record->size_bytes) {
        *shape |= SHAPE_REQUESTED;
        at = put_signed(at, record->size_bytes - record->requested_bytes);
    }
    if (!(fields & F_STACK))
        return at;
    if (record->stack) {
        *shape |= SHAPE_STACK;
        at = put_varint(at, record->stack);
    }
    if (record->primitive) {
        *shape |= SHAPE_PRIMITIVE;
        at = put_varint(at, record->primitive);
    }
    if (record->stream != -1) {
        *shape |= SHAPE_STREAM;
        at = put_signed(at, (uint64_t)(int64_t)record->stream);
    }
    return at;
}

int bh_evlog_record_encode(struct bh_evlog_running *running, const struct bh_evlog_record *record,
                           unsigned char ret_data[static BH_EVLOG_RECORD_BYTES])
{
    unsigned kind = (unsigned)record->kind;
    unsigned fields = kind < 64 ? FIELDS[kind] : 0;
    if (!fields || record->frame_count > BH_EVLOG_MAX_DEPTH)
        return BH_E_INVALID_VALUE;
    ret_data[0] = (unsigned char)(kind | (record->cached ? HEAD_CACHED : 0) |
                                  (record->doubtful ? HEAD_DOUBTFUL : 0));
    if (fields & F_DEFINITION)
        return (int)(put_definition(ret_data + 1, record) - ret_data);
    unsigned char *shape = ret_data + 1;
    *shape = 0;
    unsigned char *at = put_order(ret_data + 2, shape, fields, running, record);
    at = put_buffer(at, shape, fields, running, record);
    if (fields & F_COUNT)
        at = put_varint(at, record->count);
    if (fields & F_TEXT)
        at = put_varint(at, record->text);
    if (fields & F_PROCESS) {
        at = put_signed(at, (uint64_t)(int64_t)record->pid);
        at = put_varint(at, record->start_token);
        at = put_varint(at, record->image_number);
    }
    return (int)(at - ret_data);
}

/* ---- decoding: `bad` is sticky, checked once per record ---- */

struct reader {
    const unsigned char *at, *end;
    bool bad;
};

static uint64_t get_varint(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (reader->at == reader->end)
            break;
        unsigned char byte = *reader->at++;
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    reader->bad = true;
    return 0;
}

static uint64_t get_signed(struct reader *reader)
{
    uint64_t value = get_varint(reader);
    return (value >> 1) ^ (value & 1 ? UINT64_MAX : 0);
}

static uint32_t get_u32(struct reader *reader)
{
    uint64_t value = get_varint(reader);
    if (value > UINT32_MAX)
        reader->bad = true;
    return (uint32_t)value;
}

static int32_t get_i32(struct reader *reader)
{
    int64_t value = (int64_t)get_signed(reader);
    if (value < INT32_MIN || value > INT32_MAX)
        reader->bad = true;
    return (int32_t)value;
}

static void get_stack(struct reader *reader, struct bh_evlog_cursor *cursor,
                      struct bh_evlog_record *record)
{
    record->stack = get_u32(reader);
    uint32_t count = get_u32(reader);
    if (count > BH_EVLOG_MAX_DEPTH) {
        reader->bad = true;
        return;
    }
    uint64_t last = 0;
    for (uint32_t i = 0; i < count && !reader->bad; i++) {
        last += get_signed(reader);
        if (last > UINT32_MAX)
            reader->bad = true;
        cursor->frames[i] = (uint32_t)last;
    }
    record->frames = cursor->frames;
    record->frame_count = count;
}

static void get_definition(struct reader *reader, struct bh_evlog_cursor *cursor,
                           struct bh_evlog_record *record)
{
    if (record->kind == BH_EVLOG_STACK) {
        get_stack(reader, cursor, record);
        return;
    }
    record->id = get_u32(reader);
    if (record->kind == BH_EVLOG_FRAME) {
        record->file = get_u32(reader);
        record->function = get_u32(reader);
        record->line = get_u32(reader);
        return;
    }
    uint64_t length = get_varint(reader);
    if (length > BH_EVLOG_STRING_BYTES || length > (size_t)(reader->end - reader->at)) {
        reader->bad = true;
        return;
    }
    record->string = (const char *)reader->at;
    record->string_length = (size_t)length;
    reader->at += length;
}

static void get_order(struct reader *reader, struct bh_evlog_cursor *cursor, unsigned fields,
                      unsigned shape, struct bh_evlog_record *record)
{
    if (fields & F_SEQUENCE) {
        cursor->sequence += 1;
        if (shape & SHAPE_SEQUENCE)
            cursor->sequence += get_signed(reader);
        record->sequence = cursor->sequence;
    }
    if (fields & F_LINK)
        record->sequence = cursor->sequence - get_signed(reader);
    if (shape & SHAPE_IMAGE)
        cursor->image = get_u32(reader);
    record->image = cursor->image;
    if (fields & F_TIME) {
        cursor->time_ns += get_signed(reader);
        record->at.ns = cursor->time_ns;
    }
    if (fields & F_THREAD) {
        if (shape & SHAPE_THREAD)
            cursor->thread = get_u32(reader);
        record->thread = cursor->thread;
    }
}

static void get_buffer(struct reader *reader, struct bh_evlog_cursor *cursor, unsigned fields,
                       unsigned shape, struct bh_evlog_record *record)
{
    if (fields & F_ADDRESS) {
        cursor->address += get_signed(reader);
        record->address = cursor->address;
        record->size_bytes = get_varint(reader);
    }
    if (fields & F_REQUESTED) {
        record->requested_bytes = record->size_bytes;
        if (shape & SHAPE_REQUESTED)
            record->requested_bytes -= get_signed(reader);
    }
    record->stream = -1;
    if (shape & SHAPE_STACK)
        record->stack = get_u32(reader);
    if (shape & SHAPE_PRIMITIVE)
        record->primitive = get_u32(reader);
    if (shape & SHAPE_STREAM)
        record->stream = get_i32(reader);
}

static void get_fields(struct reader *reader, struct bh_evlog_cursor *cursor, unsigned fields,
                       struct bh_evlog_record *record)
{
    if (reader->at == reader->end) {
        reader->bad = true;
        return;
    }
    unsigned shape = *reader->at++;
    if (shape & SHAPE_RESERVED)
        reader->bad = true;
    get_order(reader, cursor, fields, shape, record);
    get_buffer(reader, cursor, fields, shape, record);
    if (fields & F_COUNT)
        record->count = get_varint(reader);
    if (fields & F_TEXT)
        record->text = get_u32(reader);
    if (fields & F_PROCESS) {
        record->pid = get_i32(reader);
        record->start_token = get_varint(reader);
        record->image_number = get_u32(reader);
    }
}

void bh_evlog_cursor_open(struct bh_evlog_cursor *cursor, const struct bh_evlog_segment *segment)
{
    cursor->at = segment->body;
    cursor->end = segment->body + segment->body_bytes;
    cursor->left = segment->records;
    cursor->sequence = 0;
    cursor->time_ns = segment->first_at.ns;
    cursor->address = 0;
    cursor->image = 0;
    cursor->thread = 0;
}

int bh_evlog_cursor_next(struct bh_evlog_cursor *cursor, struct bh_evlog_record *ret_record)
{
    if (cursor->left == 0)
        return cursor->at == cursor->end ? 0 : BH_E_MALFORMED;
    if (cursor->at == cursor->end)
        return BH_E_MALFORMED;
    struct reader reader = {cursor->at, cursor->end, false};
    unsigned head = *reader.at++;
    unsigned fields = FIELDS[head & HEAD_KIND];
    if (!fields)
        return BH_E_MALFORMED;
    *ret_record = (struct bh_evlog_record){
        .kind = (enum bh_evlog_kind)(head & HEAD_KIND),
        .cached = head & HEAD_CACHED,
        .doubtful = head & HEAD_DOUBTFUL,
    };
    if (fields & F_DEFINITION)
        get_definition(&reader, cursor, ret_record);
    else
        get_fields(&reader, cursor, fields, ret_record);
    if (reader.bad)
        return BH_E_MALFORMED;
    cursor->at = reader.at;
    cursor->left--;
    return 1;
}
