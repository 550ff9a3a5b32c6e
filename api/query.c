#include "api/query.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

static void refuse(struct bh_problem *problem, const char *key, const char *detail)
{
    char pointer[80];
    char name[64];
    (void)snprintf(pointer, sizeof pointer, "?%s",
                   bh_text_escape(key, strlen(key), name, sizeof name));
    bh_problem_add(problem, BH_E_BAD_QUERY, pointer, "%s", detail);
}

static bool is_known(const char *key, const char *const *known)
{
    for (; *known; known++) {
        if (strcmp(key, *known) == 0)
            return true;
    }
    return false;
}

void bh_query_known(const struct bh_call *call, const char *const *known,
                    struct bh_problem *problem)
{
    for (unsigned i = 0; i < call->query_count; i++) {
        const char *key = call->query[i].key;
        if (!is_known(key, known))
            refuse(problem, key, "This route has no such query field.");
        for (unsigned j = 0; j < i; j++) {
            if (strcmp(key, call->query[j].key) == 0)
                refuse(problem, key, "Give this field once.");
        }
    }
}

const char *bh_query_text(const struct bh_call *call, const char *key)
{
    for (unsigned i = 0; i < call->query_count; i++) {
        if (strcmp(call->query[i].key, key) == 0)
            return call->query[i].value;
    }
    return NULL;
}

bool bh_query_u64(const struct bh_call *call, const char *key, uint64_t minimum, uint64_t maximum,
                  uint64_t *ret_value, struct bh_problem *problem)
{
    const char *text = bh_query_text(call, key);
    if (!text)
        return false;
    struct bh_diag diag;
    uint64_t value = 0;
    if (bh_text_u64(text, key, maximum, &value, &diag) < 0) {
        refuse(problem, key, diag.detail);
        return false;
    }
    if (value < minimum) {
        char detail[96];
        (void)snprintf(detail, sizeof detail, "Give at least %llu.", (unsigned long long)minimum);
        refuse(problem, key, detail);
        return false;
    }
    *ret_value = value;
    return true;
}

bool bh_query_duration(const struct bh_call *call, const char *key, uint64_t maximum_ns,
                       uint64_t *ret_ns, struct bh_problem *problem)
{
    const char *text = bh_query_text(call, key);
    if (!text)
        return false;
    struct bh_diag diag;
    uint64_t value = 0;
    if (bh_text_duration(text, key, &value, &diag) < 0) {
        refuse(problem, key, diag.detail);
        return false;
    }
    if (value > maximum_ns) {
        char most[40];
        char detail[96];
        (void)snprintf(detail, sizeof detail, "At most %s.",
                       bh_text_format_duration(maximum_ns, most, sizeof most));
        refuse(problem, key, detail);
        return false;
    }
    *ret_ns = value;
    return true;
}

bool bh_query_choice(const struct bh_call *call, const char *key, const char *const *choices,
                     int *ret_index, struct bh_problem *problem)
{
    const char *text = bh_query_text(call, key);
    if (!text)
        return false;
    char detail[160] = "Give one of";
    for (int i = 0; choices[i]; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *ret_index = i;
            return true;
        }
        size_t used = strlen(detail);
        (void)snprintf(detail + used, sizeof detail - used, "%s %s", i ? "," : "", choices[i]);
    }
    refuse(problem, key, detail);
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int bh_query_decode(char *text, bool plus)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (*in == '%') {
            int high = hex_digit(in[1]);
            int low = high < 0 ? -1 : hex_digit(in[2]);
            if (low < 0 || (high == 0 && low == 0))
                return BH_E_BAD_QUERY;
            *out++ = (char)(unsigned char)(high * 16 + low);
            in += 2;
        } else {
            *out++ = plus && *in == '+' ? ' ' : *in;
        }
    }
    *out = '\0';
    return bh_text_is_utf8(text, (size_t)(out - text)) ? BH_OK : BH_E_BAD_QUERY;
}

int bh_query_parse(struct bh_call *call, char *text)
{
    call->query_count = 0;
    while (text && *text) {
        char *next = strchr(text, '&');
        if (next)
            *next++ = '\0';
        char *value = strchr(text, '=');
        if (value)
            *value++ = '\0';
        else
            value = text + strlen(text);
        if (*text || *value) {
            if (call->query_count == BH_API_MAX_QUERY || bh_query_decode(text, true) < 0 ||
                bh_query_decode(value, true) < 0)
                return BH_E_BAD_QUERY;
            call->query[call->query_count++] = (struct bh_query_item){text, value};
        }
        text = next;
    }
    return BH_OK;
}
