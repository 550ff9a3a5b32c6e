/* Strict reading of query fields: unknown, repeated and malformed ones are 400, with a sentence
 * that names the field. Collects into a problem (pointer "?field"); check problem->error at the
 * end. */
#ifndef BH_API_QUERY_H
#define BH_API_QUERY_H

#include "api/problem.h"

/* known: NULL-terminated names. Refuses every other field and repeated ones. */
void bh_query_known(const struct bh_call *call, const char *const *known,
                    struct bh_problem *problem);
/* The value or NULL. */
const char *bh_query_text(const struct bh_call *call, const char *key);
/* Each leaves ret_ untouched and answers false when the field is absent or wrong. */
bool bh_query_u64(const struct bh_call *call, const char *key, uint64_t minimum, uint64_t maximum,
                  uint64_t *ret_value, struct bh_problem *problem);
bool bh_query_duration(const struct bh_call *call, const char *key, uint64_t maximum_ns,
                       uint64_t *ret_ns, struct bh_problem *problem);
/* choices: NULL-terminated; ret_index gets the position. */
bool bh_query_choice(const struct bh_call *call, const char *key, const char *const *choices,
                     int *ret_index, struct bh_problem *problem);

/* Cuts "a=1&b=2" (not decoded, NULL allowed) into call->query; decodes %XX and + in place. text
 * must live as long as the call. BH_E_BAD_QUERY for bad escapes, NUL, wrong UTF-8 and too many
 * fields. */
int bh_query_parse(struct bh_call *call, char *text);
/* Decodes %XX in place (plus: '+' is a space). BH_E_BAD_QUERY as above. */
int bh_query_decode(char *text, bool plus);

#endif
