#include "core/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/io.h"

static const char *log_component = "bulkhead";
static enum bh_log_level log_threshold = BH_LOG_INFO;

void bh_log_setup(const char *component, enum bh_log_level threshold)
{
    log_component = component;
    log_threshold = threshold;
}

void bh_log(enum bh_log_level level, const char *format, ...)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if (level > log_threshold)
        return;
    int saved = errno;
    char line[1024];
    char time[BH_CLOCK_RFC3339_SIZE];
    bh_clock_rfc3339(bh_clock_wall(), time);
    int head = snprintf(line, sizeof line, "%s %s %s: ", time, names[level], log_component);
    size_t used = head > 0 ? (size_t)head : 0;
    va_list arguments;
    va_start(arguments, format);
    int body = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    used += body > 0 ? (size_t)body : 0;
    if (used > sizeof line - 2)
        used = sizeof line - 2;
    line[used++] = '\n';
    (void)bh_io_write_full(STDERR_FILENO, line,
                           used); /* one write: lines of processes do not mix */
    errno = saved;
}
