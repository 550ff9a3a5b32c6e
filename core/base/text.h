/* Strict text: sizes, durations, integers, names and UTF-8, one parser for the API, the command
 * line and the configuration file. No locale, no allocation.
 *
 * All parse functions take a terminated string, want it used up, and fail with BH_E_INVALID_VALUE
 * and a diag sentence that quotes the input and gives a right one. `field` names the member or
 * option for the diag. */
#ifndef BH_BASE_TEXT_H
#define BH_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* Decimal digits only, at most maximum. */
int bh_text_u64(const char *text, const char *field, uint64_t maximum, uint64_t *ret_value,
                struct bh_diag *diag);

/* "6GiB", "1.5GB", "4096": [0-9]+(\.[0-9]{1,3})?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB), or plain digits =
 * bytes. KB is 1000. Fractions round down. At most 2^63 - 1. */
int bh_text_size(const char *text, const char *field, uint64_t *ret_bytes, struct bh_diag *diag);

/* "250us", "2h": [0-9]+(ns|us|ms|s|m|h). At most 2^63 - 1 ns. */
int bh_text_duration(const char *text, const char *field, uint64_t *ret_ns, struct bh_diag *diag);

/* "SIGTERM", "TERM" or "15" to a number in 1..64. */
int bh_text_signal(const char *text, const char *field, int *ret_signal, struct bh_diag *diag);
/* "SIGTERM"; "SIG37" for one without a name. Static or written to the caller's buffer. */
const char *bh_text_signal_name(int signal, char *buffer, size_t buffer_size);

/* 1..64 of [A-Za-z0-9._-]; not of the form of a job id. */
int bh_text_job_name(const char *text, const char *field, struct bh_diag *diag);
/* 20 characters of [0-9a-z]. */
bool bh_text_is_job_id(const char *text);

/* Whole bytes are valid UTF-8 (no surrogates, no overlong forms). */
bool bh_text_is_utf8(const char *text, size_t length);

/* "6 GiB", "5.21 GiB", "41 MiB", "512 B": binary units, three significant figures, no trailing
 * zeros. Returns buffer. 24 bytes are enough. */
const char *bh_text_format_bytes(uint64_t bytes, char *buffer, size_t buffer_size);
/* "3.8 s", "41 min 59 s", "2 h 5 min", "12 ms", "250 us". Returns buffer. 40 bytes are enough. */
const char *bh_text_format_duration(uint64_t ns, char *buffer, size_t buffer_size);

/* Copies text into buffer for a log line or a message: control characters and invalid UTF-8 become
 * \xNN, cut at the end with "...". Returns buffer. */
const char *bh_text_escape(const char *text, size_t length, char *buffer, size_t buffer_size);

/* Last path component of a program name; "" stays "". Points into path. */
const char *bh_text_basename(const char *path);

/* Constant-time equality of two memory areas of equal length. */
bool bh_text_equal_secret(const void *left, const void *right, size_t length);

/* Lowercase hexadecimal of bytes; ret_text has 2 * length + 1 bytes. */
void bh_text_hex(const unsigned char *bytes, size_t length, char *ret_text);

#endif
