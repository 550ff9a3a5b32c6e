/* Refusals: problem+json (RFC 9457) from an error of errors.def, with pointers to the members that
 * are wrong. Collected while a body is read, written once. No allocation until it is written. */
#ifndef BH_API_PROBLEM_H
#define BH_API_PROBLEM_H

#include "api/api_types.h"

#define BH_PROBLEM_MAX_ITEMS 16

struct bh_problem_item {
    int error;
    char pointer[128]; /* JSON pointer, "/limit" */
    char detail[256];
};

/* Zero-initialise, then set or add. */
struct bh_problem {
    int error;        /* 0 = none so far */
    char detail[320]; /* "" = a fitting default */
    struct bh_problem_item items[BH_PROBLEM_MAX_ITEMS];
    unsigned count;
    const char *job_id; /* members of the answer where set */
    bool job_url;       /* with job_id: its URL too */
    bool has_last_sequence;
    uint64_t last_sequence;
};

/* Adds one wrong member; more than the maximum are left out. The problem's error becomes this one,
 * or invalid_value once members are wrong in different ways. */
void bh_problem_add(struct bh_problem *problem, int error, const char *pointer, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));
/* A sentence without a member. */
void bh_problem_set(struct bh_problem *problem, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes the body. instance: the path asked for. Errors that must not leave the process become
 * "internal" with a fixed sentence. */
void bh_problem_write(const struct bh_problem *problem, const char *instance,
                      struct bh_bytes *ret_body);
/* The error as it is shown: internal ones are BH_E_INTERNAL. */
int bh_problem_public_error(int error);

#endif
