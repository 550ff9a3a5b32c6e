/* Strict reading of JSON bodies with jansson: UTF-8, no duplicate keys, depth at most 32, nothing
 * behind the value, unknown members refused, whole numbers where bytes are meant. All that is wrong
 * is collected with JSON pointers, so that one answer names every mistake.
 *
 * A reader looks at one object; texts it returns are borrowed from the parsed value. Getters leave
 * ret_ untouched when the member is absent or wrong (absent is no error). */
#ifndef BH_API_JGET_H
#define BH_API_JGET_H

#include <jansson.h>

#include "api/problem.h"

#define BH_JGET_MAX_DEPTH 32

struct bh_jget {
    json_t *object; /* borrowed; NULL when it was no object: every getter finds nothing */
    char pointer[96];
    struct bh_problem *problem;
};

/* Parses a whole body. NULL after having put invalid_json into the problem. The caller decrefs. */
json_t *bh_jget_parse(const void *data, size_t length, struct bh_problem *problem);

/* Looks at value as an object whose members are all in known (NULL-terminated); any other member is
 * unknown_member, with a guess at what was meant. pointer: "" at the top, "/stop" below. */
void bh_jget_open(struct bh_jget *ret_reader, json_t *value, const char *pointer,
                  const char *const *known, struct bh_problem *problem);
/* A member that must be an object: opens it and answers true. */
bool bh_jget_child(const struct bh_jget *reader, const char *key, const char *const *known,
                   struct bh_jget *ret_child);
bool bh_jget_has(const struct bh_jget *reader, const char *key);
json_t *bh_jget_value(const struct bh_jget *reader, const char *key);

bool bh_jget_bool(const struct bh_jget *reader, const char *key, bool *ret_value);
bool bh_jget_u64(const struct bh_jget *reader, const char *key, uint64_t minimum, uint64_t maximum,
                 uint64_t *ret_value);
bool bh_jget_text(const struct bh_jget *reader, const char *key, const char **ret_text);
/* One of the texts (NULL-terminated); ret_index gets its position. */
bool bh_jget_choice(const struct bh_jget *reader, const char *key, const char *const *choices,
                    int *ret_index);
/* Whole number of bytes or "6GiB". */
bool bh_jget_size(const struct bh_jget *reader, const char *key, uint64_t *ret_bytes);
bool bh_jget_duration(const struct bh_jget *reader, const char *key, uint64_t *ret_ns);
bool bh_jget_signal(const struct bh_jget *reader, const char *key, int *ret_signal);

/* Adds a mistake about a member of this object (key NULL: the object itself). */
void bh_jget_refuse(const struct bh_jget *reader, int error, const char *key, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));

#endif
