#include "api/replay_json.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/scoped.h"

/* More than one line of honest events ever holds; each costs a parse. */
#define MAX_HUGE_NUMBERS 1000

static bool is_number_byte(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* Overwrites the number that ends at `end` with -1 and blanks. False if there is none. */
static bool blank_number(char *text, size_t length, size_t end)
{
    size_t from = end < length ? end : length;
    while (from > 0 && is_number_byte(text[from - 1]))
        from--;
    size_t to = from;
    while (to < length && is_number_byte(text[to]))
        to++;
    if (to - from < 2 || to < end)
        return false;
    memset(text + from, ' ', to - from);
    memcpy(text + from, "-1", 2);
    return true;
}

static int load_error(const json_error_t *error, struct bh_diag *diag)
{
    if (json_error_code(error) == json_error_out_of_memory)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "out of memory");
    return bh_err_set(diag, BH_E_SYNTAX, NULL, "not valid JSON: %s", error->text);
}

/* jansson refuses a whole text for one integer beyond 64 bits: take such numbers out, one by one.
 */
static int load_without_huge(const char *text, size_t length, json_t **ret_value,
                             json_error_t *error, struct bh_diag *diag)
{
    BH_SCOPED_FREE char *copy = malloc(length);
    if (!copy)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "out of memory");
    memcpy(copy, text, length);
    for (int i = 0; i < MAX_HUGE_NUMBERS; i++) {
        if (error->position < 0 || !blank_number(copy, length, (size_t)error->position))
            break;
        json_t *value = json_loadb(copy, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, error);
        if (value) {
            *ret_value = value;
            return BH_OK;
        }
        if (json_error_code(error) != json_error_numeric_overflow)
            break;
    }
    return load_error(error, diag);
}

int bh_policy_replay_json_load(const char *text, size_t length, json_t **ret_object,
                               struct bh_diag *diag)
{
    json_error_t error = {0};
    int r = BH_OK;
    json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!value && json_error_code(&error) == json_error_numeric_overflow)
        r = load_without_huge(text, length, &value, &error, diag);
    else if (!value)
        r = load_error(&error, diag);
    if (r < 0)
        return r;
    if (!json_is_object(value)) {
        json_decref(value);
        return bh_err_set(diag, BH_E_SYNTAX, NULL, "not a JSON object");
    }
    *ret_object = value;
    return BH_OK;
}

static int missing(const char *key, struct bh_diag *diag)
{
    return bh_err_set(diag, BH_E_MISSING_MEMBER, key, "%s is missing", key);
}

static int read_u64(const json_t *value, const char *key, uint64_t minimum, uint64_t maximum,
                    uint64_t *ret_value, struct bh_diag *diag)
{
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (number < 0 || (uint64_t)number < minimum || (uint64_t)number > maximum)
        return bh_err_set(diag, BH_E_INVALID_VALUE, key, "%s must be an integer of %llu to %llu",
                          key, (unsigned long long)minimum, (unsigned long long)maximum);
    *ret_value = (uint64_t)number;
    return BH_OK;
}

int bh_policy_replay_json_u64(const json_t *object, const char *key, uint64_t minimum,
                              uint64_t maximum, uint64_t *ret_value, struct bh_diag *diag)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        return missing(key, diag);
    return read_u64(value, key, minimum, maximum, ret_value, diag);
}

int bh_policy_replay_json_u64_or_null(const json_t *object, const char *key, uint64_t minimum,
                                      uint64_t maximum, bool *ret_present, uint64_t *ret_value,
                                      struct bh_diag *diag)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) {
        *ret_present = false;
        return BH_OK;
    }
    int r = read_u64(value, key, minimum, maximum, ret_value, diag);
    if (r == BH_OK)
        *ret_present = true;
    return r;
}

int bh_policy_replay_json_bool(const json_t *object, const char *key, bool *ret_value,
                               struct bh_diag *diag)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        return missing(key, diag);
    if (!json_is_boolean(value))
        return bh_err_set(diag, BH_E_INVALID_VALUE, key, "%s must be true or false", key);
    *ret_value = json_is_true(value);
    return BH_OK;
}

int bh_policy_replay_json_word(const json_t *object, const char *key,
                               int (*from_name)(const char *), int *ret_number,
                               struct bh_diag *diag)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        return missing(key, diag);
    const char *text = json_string_value(value);
    /* a string with a NUL inside is longer than it looks and no word of any list */
    int number = text && strlen(text) == json_string_length(value) ? from_name(text) : -1;
    if (number < 0)
        return bh_err_set(diag, BH_E_INVALID_VALUE, key, "%s is not one of its known words", key);
    *ret_number = number;
    return BH_OK;
}
