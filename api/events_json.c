#include "api/events_json.h"

#include <stdio.h>
#include <string.h>

#include "api/jget.h"

#define MAX_EXACT 9007199254740991ull /* 2^53 - 1 */

static const char *const members[] = {
    "addr",           "size",   "requested_size", "timestamp_us", "elapsed_us", "action",
    "primitive_name", "stream", "traceback",      "seq",          "pid",        "image",
    "count",          "label",  "state",          NULL,
};

struct reading {
    const char *at, *end;
    uint64_t number; /* of the entry */
    int (*visit)(void *user, const struct bh_event_entry *entry, struct bh_diag *diag);
    void *user;
    struct bh_problem *problem;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct reading *reading)
{
    while (reading->at < reading->end && is_space(*reading->at))
        reading->at++;
}

/* Length of the JSON value at the start: to the end of its outermost braces, or, for anything that
 * is no object, to the next comma or bracket (its parser says what is wrong with it). */
static size_t value_length(const char *text, size_t length)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
            continue;
        }
        if (c == '"')
            quoted = true;
        else if (c == '{' || c == '[')
            depth++;
        else if (depth == 0 && (c == ',' || c == ']'))
            return i;
        else if ((c == '}' || c == ']') && --depth == 0)
            return i + 1;
    }
    return length;
}

/* ---- one entry --------------------------------------------------------------------------------
 */

/* A member that may be null; absent and null leave ret_value. */
static void read_maybe_u64(const struct bh_jget *entry, const char *key, uint64_t maximum,
                           uint64_t *ret_value)
{
    if (!json_is_null(bh_jget_value(entry, key)))
        (void)bh_jget_u64(entry, key, 0, maximum, ret_value);
}

static void read_maybe_text(const struct bh_jget *entry, const char *key, const char **ret_text)
{
    if (!json_is_null(bh_jget_value(entry, key)))
        (void)bh_jget_text(entry, key, ret_text);
}

static void need_u64(const struct bh_jget *entry, const char *key, uint64_t *ret_value)
{
    if (!bh_jget_has(entry, key))
        bh_jget_refuse(entry, BH_E_MISSING_MEMBER, key, "This member is needed.");
    else
        (void)bh_jget_u64(entry, key, 0, MAX_EXACT, ret_value);
}

static void read_stream(const struct bh_jget *entry, int32_t *ret_stream)
{
    json_t *value = bh_jget_value(entry, "stream");
    *ret_stream = -1;
    if (!value || json_is_null(value))
        return;
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -2;
    if (number < -1 || number > INT32_MAX)
        bh_jget_refuse(entry, BH_E_INVALID_VALUE, "stream", "Give -1 or the index of a stream.");
    else
        *ret_stream = (int32_t)number;
}

static bool read_frame(json_t *value, struct bh_event_frame *ret_frame)
{
    json_t *line = json_array_get(value, 2);
    ret_frame->file = json_string_value(json_array_get(value, 0));
    ret_frame->function = json_string_value(json_array_get(value, 1));
    ret_frame->line = (uint32_t)json_integer_value(line);
    return json_array_size(value) == 3 && ret_frame->file && ret_frame->function &&
           json_is_integer(line) && json_integer_value(line) >= 0 &&
           json_integer_value(line) <= INT32_MAX;
}

static void read_traceback(const struct bh_jget *entry, struct bh_event_frame *frames,
                           struct bh_event_entry *ret_entry)
{
    json_t *value = bh_jget_value(entry, "traceback");
    size_t count = json_array_size(value);
    if (!value || json_is_null(value))
        return;
    bool good = json_is_array(value) && count <= BH_EVENTS_MAX_FRAMES;
    for (size_t i = 0; good && i < count; i++)
        good = read_frame(json_array_get(value, i), &frames[i]);
    if (!good) {
        bh_jget_refuse(entry, BH_E_INVALID_VALUE, "traceback",
                       "Give null or at most %d of [file, function, line], outermost first.",
                       BH_EVENTS_MAX_FRAMES);
        return;
    }
    ret_entry->frames = frames;
    ret_entry->frame_count = count;
}

static void read_members(const struct bh_jget *reader, struct bh_event_frame *frames,
                         struct bh_event_entry *ret_entry)
{
    static const char *const states[] = {"active", "cached", NULL};
    uint64_t number = 0;
    int state = 0;
    *ret_entry = (struct bh_event_entry){.stream = -1};
    if (!bh_jget_text(reader, "action", &ret_entry->action) && !bh_jget_has(reader, "action"))
        bh_jget_refuse(reader, BH_E_MISSING_MEMBER, "action", "This member is needed.");
    need_u64(reader, "addr", &ret_entry->address);
    need_u64(reader, "size", &ret_entry->size_bytes);
    need_u64(reader, "timestamp_us", &number);
    ret_entry->timestamp_us = (int64_t)number;
    ret_entry->requested_bytes = ret_entry->size_bytes;
    read_maybe_u64(reader, "requested_size", MAX_EXACT, &ret_entry->requested_bytes);
    read_maybe_u64(reader, "elapsed_us", MAX_EXACT, &number); /* follows from the times */
    ret_entry->has_sequence = bh_jget_u64(reader, "seq", 0, MAX_EXACT, &ret_entry->sequence);
    number = 0;
    read_maybe_u64(reader, "pid", INT32_MAX, &number);
    ret_entry->pid = (int)number;
    number = 0;
    read_maybe_u64(reader, "image", UINT32_MAX, &number);
    ret_entry->image = (uint32_t)number;
    read_maybe_u64(reader, "count", MAX_EXACT, &ret_entry->count);
    read_maybe_text(reader, "primitive_name", &ret_entry->primitive);
    read_maybe_text(reader, "label", &ret_entry->label);
    read_stream(reader, &ret_entry->stream);
    if (bh_jget_choice(reader, "state", states, &state))
        ret_entry->cached = state == 1;
    read_traceback(reader, frames, ret_entry);
}

static int refuse_entry(struct reading *reading, int error, const char *member, const char *detail)
{
    char pointer[128];
    (void)snprintf(pointer, sizeof pointer, "/%llu%s%s", (unsigned long long)reading->number,
                   *member ? "/" : "", member);
    bh_problem_add(reading->problem, error, pointer, "%s", detail);
    return reading->problem->error;
}

static int read_entry(struct reading *reading, const char *text, size_t length)
{
    struct bh_problem syntax = {0};
    struct bh_event_frame frames[BH_EVENTS_MAX_FRAMES];
    struct bh_event_entry entry;
    struct bh_jget reader;
    struct bh_diag diag = {0};
    char pointer[32];
    json_t *root = bh_jget_parse(text, length, &syntax);
    if (!root)
        return refuse_entry(reading, BH_E_SYNTAX, "", syntax.detail);
    (void)snprintf(pointer, sizeof pointer, "/%llu", (unsigned long long)reading->number);
    bh_jget_open(&reader, root, pointer, members, reading->problem);
    if (reader.object)
        read_members(&reader, frames, &entry);
    int result = reading->problem->error;
    if (result == 0) {
        result = reading->visit(reading->user, &entry, &diag);
        if (result < 0)
            result = refuse_entry(reading, result, diag.field, diag.detail);
    }
    json_decref(root);
    reading->number++;
    return result;
}

/* ---- the body ---------------------------------------------------------------------------------
 */

static int read_array(struct reading *reading)
{
    reading->at++; /* the bracket */
    skip_space(reading);
    bool first = true;
    while (reading->at < reading->end && (*reading->at != ']' || !first)) {
        size_t length = value_length(reading->at, (size_t)(reading->end - reading->at));
        int result = read_entry(reading, reading->at, length);
        if (result < 0)
            return result;
        first = false;
        reading->at += length;
        skip_space(reading);
        if (reading->at < reading->end && *reading->at == ']')
            break;
        if (reading->at == reading->end || *reading->at != ',')
            return refuse_entry(reading, BH_E_SYNTAX, "",
                                "A comma or the end of the array is wanted.");
        reading->at++;
        skip_space(reading);
    }
    if (reading->at == reading->end)
        return refuse_entry(reading, BH_E_SYNTAX, "", "The array does not end.");
    reading->at++;
    skip_space(reading);
    return reading->at == reading->end
               ? BH_OK
               : refuse_entry(reading, BH_E_SYNTAX, "", "Something follows the array.");
}

static int read_lines(struct reading *reading)
{
    int result = BH_OK;
    while (reading->at < reading->end && result >= 0) {
        size_t left = (size_t)(reading->end - reading->at);
        const char *newline = memchr(reading->at, '\n', left);
        size_t length = newline ? (size_t)(newline - reading->at) : left;
        const char *line = reading->at;
        reading->at += newline ? length + 1 : length;
        while (length && is_space(line[length - 1]))
            length--;
        if (length)
            result = read_entry(reading, line, length);
    }
    return result;
}

int64_t bh_events_read(const char *text, size_t length, enum bh_events_form form,
                       int (*visit)(void *user, const struct bh_event_entry *entry,
                                    struct bh_diag *diag),
                       void *user, struct bh_problem *problem)
{
    struct reading reading = {
        .at = text, .end = text + length, .visit = visit, .user = user, .problem = problem};
    skip_space(&reading);
    bool bracket = reading.at < reading.end && *reading.at == '[';
    if (form == BH_EVENTS_ARRAY && !bracket) {
        bh_problem_set(problem, BH_E_SYNTAX,
                       "A JSON array of events is wanted, or application/x-ndjson.");
        return problem->error;
    }
    bool array = form == BH_EVENTS_ARRAY || (form == BH_EVENTS_EITHER && bracket);
    int result = array ? read_array(&reading) : read_lines(&reading);
    return result < 0 ? result : (int64_t)reading.number;
}
