/* Strict JSON objects for the replay tool, on jansson. Used by replay_*.c only. */
#ifndef BH_API_REPLAY_JSON_H
#define BH_API_REPLAY_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

/* One object in text, nothing behind it, no duplicate member. An integer outside 64 bits is no
 * syntax error (it may sit in a member that is ignored): it reads as -1, which no member allows.
 * The reference is the caller's. */
int bh_policy_replay_json_load(const char *text, size_t length, json_t **ret_object,
                               struct bh_diag *diag);

/* A member that is an integer of minimum to maximum. BH_E_MISSING_MEMBER when absent; null is a
 * wrong value. */
int bh_policy_replay_json_u64(const json_t *object, const char *key, uint64_t minimum,
                              uint64_t maximum, uint64_t *ret_value, struct bh_diag *diag);
/* The same where null and absent mean "none": ret_present false, ret_value untouched. */
int bh_policy_replay_json_u64_or_null(const json_t *object, const char *key, uint64_t minimum,
                                      uint64_t maximum, bool *ret_present, uint64_t *ret_value,
                                      struct bh_diag *diag);
int bh_policy_replay_json_bool(const json_t *object, const char *key, bool *ret_value,
                               struct bh_diag *diag);
/* A string that from_name knows. */
int bh_policy_replay_json_word(const json_t *object, const char *key,
                               int (*from_name)(const char *), int *ret_number,
                               struct bh_diag *diag);

#endif
