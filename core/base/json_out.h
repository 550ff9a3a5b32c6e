/* A JSON writer onto struct bh_bytes: commas, indentation and escaping are its duty, nesting is the
 * caller's and checked (BH_BUG_ON). Strings that are not UTF-8 have their wrong bytes replaced by
 * U+FFFD, so that the output always is valid JSON.
 *
 *     struct bh_json json;
 *     bh_json_begin(&json, &buffer, BH_JSON_PRETTY);
 *     bh_json_object(&json, NULL);
 *     bh_json_u64(&json, "bytes", 5);
 *     bh_json_end(&json);            closes the innermost object or array
 *     bh_json_finish(&json);         checks that all is closed; pretty adds one newline
 *
 * key is NULL inside arrays and at the top. Memory failure is bh_bytes.failed. */
#ifndef BH_BASE_JSON_OUT_H
#define BH_BASE_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/bytes.h"

#define BH_JSON_MAX_DEPTH 32

enum bh_json_style {
    BH_JSON_COMPACT, /* no space at all */
    BH_JSON_PRETTY,  /* two spaces an indent, one trailing newline */
};

struct bh_json {
    struct bh_bytes *out; /* borrowed */
    enum bh_json_style style;
    int depth;
    bool any[BH_JSON_MAX_DEPTH + 1];   /* has the level an entry already */
    char close[BH_JSON_MAX_DEPTH + 1]; /* '}' or ']' */
};

void bh_json_begin(struct bh_json *json, struct bh_bytes *out, enum bh_json_style style);
void bh_json_object(struct bh_json *json, const char *key);
void bh_json_array(struct bh_json *json, const char *key);
void bh_json_end(struct bh_json *json);
void bh_json_finish(struct bh_json *json);

void bh_json_null(struct bh_json *json, const char *key);
void bh_json_bool(struct bh_json *json, const char *key, bool value);
void bh_json_u64(struct bh_json *json, const char *key, uint64_t value);
void bh_json_i64(struct bh_json *json, const char *key, int64_t value);
void bh_json_double(struct bh_json *json, const char *key, double value); /* null when not finite */
void bh_json_string(struct bh_json *json, const char *key, const char *text); /* NULL -> null */
void bh_json_text(struct bh_json *json, const char *key, const char *text, size_t length);
/* Already valid JSON, inserted as it is. */
void bh_json_raw(struct bh_json *json, const char *key, const char *text, size_t length);

/* Only the escaping: a quoted JSON string appended to out. */
void bh_json_quote(struct bh_bytes *out, const char *text, size_t length);

#endif
