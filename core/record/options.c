/* The recorder's settings, read once from the environment at the first allocator() call. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/record/record.h"

static int read_number(const char *text, size_t length, uint64_t low, uint64_t high,
                       uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t at;

    if (length == 0 || length > 18) {
        return -1;
    }
    for (at = 0; at < length; at++) {
        if (text[at] < '0' || text[at] > '9') {
            return -1;
        }
        value = value * 10 + (uint64_t)(text[at] - '0');
    }
    if (value < low || value > high) {
        return -1;
    }
    *ret_value = value;
    return 0;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static int read_stacks(struct bh_options *options, const char *text, size_t length)
{
    if (is_word(text, length, "none")) {
        options->stacks = BH_RING_STACKS_NONE;
    } else if (is_word(text, length, "python")) {
        options->stacks = BH_RING_STACKS_PYTHON;
    } else if (is_word(text, length, "all")) {
        options->stacks = BH_RING_STACKS_ALL;
    } else {
        return -1;
    }
    return 0;
}

/* One `name=value`; names that this version does not know are skipped. */
static int read_item(struct bh_options *options, const char *item, size_t length)
{
    const char *equals = memchr(item, '=', length);
    const char *value;
    size_t name_bytes, value_bytes;
    uint64_t number = 0;
    int rc;

    if (equals == NULL) {
        return -1;
    }
    name_bytes = (size_t)(equals - item);
    value = equals + 1;
    value_bytes = length - name_bytes - 1;
    if (is_word(item, name_bytes, "stacks")) {
        return read_stacks(options, value, value_bytes);
    }
    if (is_word(item, name_bytes, "depth")) {
        rc = read_number(value, value_bytes, 1, BH_RING_DEPTH_MAX, &number);
        options->depth = (uint32_t)number;
        return rc;
    }
    if (is_word(item, name_bytes, "slots")) {
        rc = read_number(value, value_bytes, BH_RING_SLOTS_MIN, BH_RING_SLOTS_MAX, &number);
        options->slots = (uint32_t)number;
        return rc != 0 || (number & (number - 1)) != 0 ? -1 : 0;
    }
    if (is_word(item, name_bytes, "arena")) {
        rc = read_number(value, value_bytes, BH_RING_ARENA_BYTES_MIN, BH_RING_ARENA_BYTES_MAX,
                         &number);
        options->arena_bytes = number & ~(uint64_t)4095;
        return rc;
    }
    if (is_word(item, name_bytes, "check")) {
        rc = read_number(value, value_bytes, 0, 1, &number);
        options->check = number != 0;
        return rc;
    }
    if (is_word(item, name_bytes, "on")) {
        rc = read_number(value, value_bytes, 0, 1, &number);
        options->start_off = number == 0;
        return rc;
    }
    if (is_word(item, name_bytes, "min")) {
        return read_number(value, value_bytes, 0, UINT64_MAX, &options->min_size_bytes);
    }
    return 0;
}

static int read_items(struct bh_options *options, const char *text)
{
    if (strncmp(text, "v1", 2) != 0 || (text[2] != '\0' && text[2] != ';')) {
        return -1;
    }
    text += 2;
    while (*text == ';') {
        size_t length = strcspn(++text, ";");

        if (length != 0 && read_item(options, text, length) != 0) {
            return -1;
        }
        text += length;
    }
    return 0;
}

int bh_options_read(struct bh_options *ret_options, const char **ret_reason)
{
    const char *dir = getenv("BULKHEAD_RING_DIR");
    const char *text = getenv("BULKHEAD_RECORD");
    struct bh_options options = {.stacks = BH_RING_STACKS_PYTHON,
                                 .depth = BH_RING_DEPTH_DEFAULT,
                                 .slots = BH_RING_SLOTS_DEFAULT,
                                 .arena_bytes = BH_RING_ARENA_BYTES_DEFAULT};

    if (dir == NULL || text == NULL || dir[0] != '/' || strlen(dir) >= sizeof(options.dir)) {
        return 0;
    }
    memcpy(options.dir, dir, strlen(dir) + 1);
    if (read_items(&options, text) != 0) {
        *ret_options = options;
        *ret_reason = "BULKHEAD_RECORD is not understood by this recorder";
        return -1;
    }
    *ret_options = options;
    return 1;
}
