#include "api/jget.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

/* Deepest nesting of arrays and objects, counted before the parser recurses. */
static int nesting(const char *text, size_t length)
{
    int depth = 0;
    int deepest = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > deepest)
                deepest = depth;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return deepest;
}

json_t *bh_jget_parse(const void *data, size_t length, struct bh_problem *problem)
{
    if (length == 0) {
        bh_problem_set(problem, BH_E_SYNTAX, "The body is empty. Send a JSON object.");
        return NULL;
    }
    if (!bh_text_is_utf8(data, length)) {
        bh_problem_set(problem, BH_E_SYNTAX, "The body is not UTF-8. Encode it and send it again.");
        return NULL;
    }
    if (nesting(data, length) > BH_JGET_MAX_DEPTH) {
        bh_problem_set(problem, BH_E_SYNTAX, "The body is nested deeper than %d levels.",
                       BH_JGET_MAX_DEPTH);
        return NULL;
    }
    json_error_t error;
    json_t *root = json_loadb(data, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root) {
        char text[160];
        bh_problem_set(problem, BH_E_SYNTAX,
                       "Line %d, column %d: %s. Correct it and send it again.", error.line,
                       error.column,
                       bh_text_escape(error.text, strlen(error.text), text, sizeof text));
    }
    return root;
}

/* Appends "/key" with ~ and / escaped (RFC 6901). */
static void append_pointer(char *pointer, size_t size, const char *key)
{
    size_t used = strlen(pointer);
    if (used + 1 >= size)
        return;
    pointer[used++] = '/';
    for (; *key && used + 2 < size; key++) {
        if (*key == '~' || *key == '/') {
            pointer[used++] = '~';
            pointer[used++] = *key == '~' ? '0' : '1';
        } else {
            pointer[used++] = *key;
        }
    }
    pointer[used] = '\0';
}

void bh_jget_refuse(const struct bh_jget *reader, int error, const char *key, const char *format,
                    ...)
{
    char pointer[128];
    char detail[256];
    (void)snprintf(pointer, sizeof pointer, "%s", reader->pointer);
    if (key)
        append_pointer(pointer, sizeof pointer, key);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    bh_problem_add(reader->problem, error, pointer, "%s", detail);
}

/* Edit distance, given up above 2; for "did you mean". Texts longer than 31 never match. */
static size_t distance(const char *left, const char *right)
{
    size_t n = strlen(left);
    size_t m = strlen(right);
    size_t row[32];
    if (n > 31 || m > 31)
        return 99;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = diagonal + (left[i - 1] != right[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[m];
}

static void refuse_unknown(const struct bh_jget *reader, const char *key, const char *const *known)
{
    const char *nearest = NULL;
    for (size_t i = 0; known[i]; i++) {
        if (distance(key, known[i]) <= 2)
            nearest = known[i];
    }
    if (nearest)
        bh_jget_refuse(reader, BH_E_UNKNOWN_MEMBER, key, "Unknown member. Did you mean %s?",
                       nearest);
    else
        bh_jget_refuse(reader, BH_E_UNKNOWN_MEMBER, key, "Unknown member. Leave it out.");
}

void bh_jget_open(struct bh_jget *ret_reader, json_t *value, const char *pointer,
                  const char *const *known, struct bh_problem *problem)
{
    *ret_reader = (struct bh_jget){.problem = problem};
    (void)snprintf(ret_reader->pointer, sizeof ret_reader->pointer, "%s", pointer);
    if (!json_is_object(value)) {
        bh_jget_refuse(ret_reader, BH_E_INVALID_VALUE, NULL, "A JSON object is wanted here.");
        return;
    }
    ret_reader->object = value;
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member)
    {
        bool found = false;
        for (size_t i = 0; known[i] && !found; i++)
            found = strcmp(key, known[i]) == 0;
        if (!found)
            refuse_unknown(ret_reader, key, known);
    }
}

json_t *bh_jget_value(const struct bh_jget *reader, const char *key)
{
    return reader->object ? json_object_get(reader->object, key) : NULL;
}

bool bh_jget_has(const struct bh_jget *reader, const char *key)
{
    return bh_jget_value(reader, key) != NULL;
}

bool bh_jget_child(const struct bh_jget *reader, const char *key, const char *const *known,
                   struct bh_jget *ret_child)
{
    json_t *value = bh_jget_value(reader, key);
    if (!value)
        return false;
    char pointer[96];
    (void)snprintf(pointer, sizeof pointer, "%s", reader->pointer);
    append_pointer(pointer, sizeof pointer, key);
    bh_jget_open(ret_child, value, pointer, known, reader->problem);
    return ret_child->object != NULL;
}

bool bh_jget_bool(const struct bh_jget *reader, const char *key, bool *ret_value)
{
    json_t *value = bh_jget_value(reader, key);
    if (!value)
        return false;
    if (!json_is_boolean(value)) {
        bh_jget_refuse(reader, BH_E_INVALID_VALUE, key, "Give true or false.");
        return false;
    }
    *ret_value = json_is_true(value);
    return true;
}

bool bh_jget_u64(const struct bh_jget *reader, const char *key, uint64_t minimum, uint64_t maximum,
                 uint64_t *ret_value)
{
    json_t *value = bh_jget_value(reader, key);
    if (!value)
        return false;
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (number < 0 || (uint64_t)number < minimum || (uint64_t)number > maximum) {
        bh_jget_refuse(reader, BH_E_INVALID_VALUE, key, "Give a whole number from %llu to %llu.",
                       (unsigned long long)minimum, (unsigned long long)maximum);
        return false;
    }
    *ret_value = (uint64_t)number;
    return true;
}

bool bh_jget_text(const struct bh_jget *reader, const char *key, const char **ret_text)
{
    json_t *value = bh_jget_value(reader, key);
    if (!value)
        return false;
    if (!json_is_string(value)) {
        bh_jget_refuse(reader, BH_E_INVALID_VALUE, key, "Give a string.");
        return false;
    }
    *ret_text = json_string_value(value);
    return true;
}

bool bh_jget_choice(const struct bh_jget *reader, const char *key, const char *const *choices,
                    int *ret_index)
{
    const char *text = NULL;
    if (!bh_jget_text(reader, key, &text))
        return false;
    char wanted[120] = "";
    for (int i = 0; choices[i]; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *ret_index = i;
            return true;
        }
        size_t used = strlen(wanted);
        (void)snprintf(wanted + used, sizeof wanted - used, "%s\"%s\"", i ? ", " : "", choices[i]);
    }
    bh_jget_refuse(reader, BH_E_INVALID_VALUE, key, "Give one of %s.", wanted);
    return false;
}

/* A text parser's failure, as a mistake about the member. */
static bool parsed(const struct bh_jget *reader, const char *key, int result,
                   const struct bh_diag *diag)
{
    if (result < 0)
        bh_jget_refuse(reader, BH_E_INVALID_VALUE, key, "%s.", diag->detail);
    return result >= 0;
}

bool bh_jget_size(const struct bh_jget *reader, const char *key, uint64_t *ret_bytes)
{
    json_t *value = bh_jget_value(reader, key);
    if (json_is_integer(value))
        return bh_jget_u64(reader, key, 0, INT64_MAX, ret_bytes);
    if (value && !json_is_string(value)) {
        bh_jget_refuse(reader, BH_E_INVALID_VALUE, key,
                       "Give whole bytes or a text with a unit, like \"6GiB\".");
        return false;
    }
    const char *text = NULL;
    struct bh_diag diag = {0};
    return bh_jget_text(reader, key, &text) &&
           parsed(reader, key, bh_text_size(text, key, ret_bytes, &diag), &diag);
}

bool bh_jget_duration(const struct bh_jget *reader, const char *key, uint64_t *ret_ns)
{
    json_t *value = bh_jget_value(reader, key);
    if (value && !json_is_string(value)) {
        bh_jget_refuse(reader, BH_E_INVALID_VALUE, key,
                       "Give a text with a unit, like \"50ms\", \"30s\" or \"2h\".");
        return false;
    }
    const char *text = NULL;
    struct bh_diag diag = {0};
    return bh_jget_text(reader, key, &text) &&
           parsed(reader, key, bh_text_duration(text, key, ret_ns, &diag), &diag);
}

bool bh_jget_signal(const struct bh_jget *reader, const char *key, int *ret_signal)
{
    const char *text = NULL;
    struct bh_diag diag = {0};
    return bh_jget_text(reader, key, &text) &&
           parsed(reader, key, bh_text_signal(text, key, ret_signal, &diag), &diag);
}
