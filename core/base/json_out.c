#include "core/base/json_out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/text.h"

void bh_json_begin(struct bh_json *json, struct bh_bytes *out, enum bh_json_style style)
{
    *json = (struct bh_json){.out = out, .style = style};
}

static void newline(struct bh_json *json)
{
    if (json->style != BH_JSON_PRETTY)
        return;
    bh_bytes_append(json->out, "\n", 1);
    for (int i = 0; i < json->depth; i++)
        bh_bytes_append(json->out, "  ", 2);
}

static void start_value(struct bh_json *json, const char *key)
{
    if (json->any[json->depth])
        bh_bytes_append(json->out, ",", 1);
    json->any[json->depth] = true;
    if (json->depth > 0)
        newline(json);
    if (key) {
        bh_json_quote(json->out, key, strlen(key));
        bh_bytes_append_text(json->out, json->style == BH_JSON_PRETTY ? ": " : ":");
    }
}

static void open_level(struct bh_json *json, const char *key, const char *open, char close)
{
    start_value(json, key);
    bh_bytes_append_text(json->out, open);
    BH_BUG_ON(json->depth >= BH_JSON_MAX_DEPTH);
    json->depth++;
    json->any[json->depth] = false;
    json->close[json->depth] = close;
}

void bh_json_object(struct bh_json *json, const char *key)
{
    open_level(json, key, "{", '}');
}

void bh_json_array(struct bh_json *json, const char *key)
{
    open_level(json, key, "[", ']');
}

void bh_json_end(struct bh_json *json)
{
    BH_BUG_ON(json->depth <= 0);
    char close = json->close[json->depth];
    bool any = json->any[json->depth];
    json->depth--;
    if (any)
        newline(json);
    bh_bytes_append(json->out, &close, 1);
}

void bh_json_finish(struct bh_json *json)
{
    BH_BUG_ON(json->depth != 0);
    if (json->style == BH_JSON_PRETTY)
        bh_bytes_append(json->out, "\n", 1);
}

void bh_json_raw(struct bh_json *json, const char *key, const char *text, size_t length)
{
    start_value(json, key);
    bh_bytes_append(json->out, text, length);
}

void bh_json_null(struct bh_json *json, const char *key)
{
    bh_json_raw(json, key, "null", 4);
}

void bh_json_bool(struct bh_json *json, const char *key, bool value)
{
    bh_json_raw(json, key, value ? "true" : "false", value ? 4 : 5);
}

void bh_json_u64(struct bh_json *json, const char *key, uint64_t value)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    bh_json_raw(json, key, text, (size_t)n);
}

void bh_json_i64(struct bh_json *json, const char *key, int64_t value)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)value);
    bh_json_raw(json, key, text, (size_t)n);
}

void bh_json_double(struct bh_json *json, const char *key, double value)
{
    char text[40];
    if (!isfinite(value)) {
        bh_json_null(json, key);
        return;
    }
    int n = snprintf(text, sizeof text, "%.9g", value);
    bh_json_raw(json, key, text, (size_t)n);
}

void bh_json_text(struct bh_json *json, const char *key, const char *text, size_t length)
{
    start_value(json, key);
    bh_json_quote(json->out, text, length);
}

void bh_json_string(struct bh_json *json, const char *key, const char *text)
{
    if (text)
        bh_json_text(json, key, text, strlen(text));
    else
        bh_json_null(json, key);
}

static void quote_byte(struct bh_bytes *out, unsigned char c)
{
    switch (c) {
    case '"':
        bh_bytes_append(out, "\\\"", 2);
        break;
    case '\\':
        bh_bytes_append(out, "\\\\", 2);
        break;
    case '\n':
        bh_bytes_append(out, "\\n", 2);
        break;
    case '\r':
        bh_bytes_append(out, "\\r", 2);
        break;
    case '\t':
        bh_bytes_append(out, "\\t", 2);
        break;
    default:
        bh_bytes_printf(out, "\\u%04x", c);
        break;
    }
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Valid multi-byte sequence at text, else 0. */
static size_t multibyte(const char *text, size_t left)
{
    for (size_t n = 2; n <= 4 && n <= left; n++) {
        if (bh_text_is_utf8(text, n))
            return (unsigned char)text[0] >= 0xc2 ? n : 0;
    }
    return 0;
}

void bh_json_quote(struct bh_bytes *out, const char *text, size_t length)
{
    bh_bytes_append(out, "\"", 1);
    for (size_t i = 0; i < length;) {
        size_t run = 0;
        while (i + run < length && is_plain((unsigned char)text[i + run]))
            run++;
        if (run) {
            bh_bytes_append(out, text + i, run);
            i += run;
            continue;
        }
        unsigned char c = (unsigned char)text[i];
        size_t n = c >= 0x80 ? multibyte(text + i, length - i) : 0;
        if (n)
            bh_bytes_append(out, text + i, n);
        else if (c >= 0x80)
            bh_bytes_append(out, "\xef\xbf\xbd", 3); /* U+FFFD */
        else
            quote_byte(out, c);
        i += n ? n : 1;
    }
    bh_bytes_append(out, "\"", 1);
}
