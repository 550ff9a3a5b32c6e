/* The verdict of `bulkhead-supervise start`: one line {"code":…,"detail":…,"field":…} on stdout. */
#ifndef BH_API_VERDICT_JSON_H
#define BH_API_VERDICT_JSON_H

#include <stddef.h>

#include "core/base/err.h"

/* The typed error it tells, with its sentence in diag; BH_OK when text is no verdict (then the exit
 * status must do). */
int bh_verdict_read(const char *text, size_t length, struct bh_diag *diag);

#endif
