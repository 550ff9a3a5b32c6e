/* Errors: negative integers from errors.def, with human detail in a caller-owned struct bh_diag.
 *
 * Every fallible function of the product returns int: >= 0 good, < 0 one of enum bh_error. Outputs
 * are untouched on failure. A diag is optional (NULL is allowed everywhere) and is filled only on
 * failure; it holds one sentence that says what is wrong and what to do, and, where input has a
 * structure, the member it is about. No allocation, usable in every process. */
#ifndef BH_BASE_ERR_H
#define BH_BASE_ERR_H

#include <stddef.h>

enum bh_error {
    BH_OK = 0,
#define BH_ERROR(name, number, code, http, exit_code, title) BH_E_##name = -(number),
#include "core/base/errors.def"
#undef BH_ERROR
};

/* detail: UTF-8 sentence, always terminated, cut at the array's end.
 * field:  the member or option the error is about ("limit", "breach/count"), or "". */
struct bh_diag {
    char detail[320];
    char field[96];
};

/* Static text of an error: "launch_not_found". "unknown" for a number that is no error. */
const char *bh_err_code(int error);
/* Static short fact: "The program was not found". */
const char *bh_err_title(int error);
/* HTTP status that answers it; 500 for anything that must not leave the process. */
int bh_err_http(int error);
/* Exit status of a command line tool that ends with it. */
int bh_err_exit(int error);
/* Name to number, for tests and for problem codes read back; BH_OK when unknown. */
int bh_err_from_code(const char *code);

/* Converts an errno value: ENOENT, EEXIST, EACCES, ENOSPC, ENOMEM … else BH_E_IO. Never BH_OK. */
int bh_err_from_errno(int errno_value);

/* Fill a diag (NULL allowed) and return error, so that failures are one line:
 *     return bh_err_set(diag, BH_E_RANGE, "limit", "%s is too large", text);
 * field may be NULL. */
int bh_err_set(struct bh_diag *diag, int error, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for a failed system call: appends strerror(errno_value), returns the converted error. */
int bh_err_sys(struct bh_diag *diag, int errno_value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A broken invariant: prints file and line to stderr and aborts, in release builds too. Not for the
 * job's process. */
#define BH_BUG_ON(condition)                                                                       \
    do {                                                                                           \
        if (__builtin_expect(!!(condition), 0))                                                    \
            bh_err_bug(#condition, __FILE__, __LINE__);                                            \
    } while (0)
_Noreturn void bh_err_bug(const char *condition, const char *file, int line);

#endif
