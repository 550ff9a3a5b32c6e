#include "core/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    int error;
    const char *code;
    const char *title;
    int http;
    int exit_code;
};

static const struct row rows[] = {
#define BH_ERROR(name, number, code, http, exit_code, title)                                       \
    {-(number), code, title, http, exit_code},
#include "core/base/errors.def"
#undef BH_ERROR
};

static const struct row *find(int error)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].error == error)
            return &rows[i];
    }
    return NULL;
}

const char *bh_err_code(int error)
{
    const struct row *row = find(error);
    return row ? row->code : "unknown";
}

const char *bh_err_title(int error)
{
    const struct row *row = find(error);
    return row ? row->title : "Unknown error";
}

int bh_err_http(int error)
{
    const struct row *row = find(error);
    return row && row->http ? row->http : 500;
}

int bh_err_exit(int error)
{
    const struct row *row = find(error);
    return row ? row->exit_code : 70;
}

int bh_err_from_code(const char *code)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].code, code) == 0)
            return rows[i].error;
    }
    return BH_OK;
}

int bh_err_from_errno(int errno_value)
{
    switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
        return BH_E_NOT_FOUND;
    case EEXIST:
    case ENOTEMPTY:
        return BH_E_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return BH_E_PERMISSION;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return BH_E_NOSPACE;
    case ENOMEM:
        return BH_E_NOMEM;
    case EAGAIN:
    case EINTR:
        return BH_E_AGAIN;
    case EBUSY:
        return BH_E_BUSY;
    case EPIPE:
    case ECONNRESET:
        return BH_E_CLOSED;
    case ELOOP:
        return BH_E_UNSAFE_PATH;
    case ENAMETOOLONG:
        return BH_E_TOO_LONG;
    case ENOSYS:
    case EOPNOTSUPP:
        return BH_E_UNSUPPORTED;
    default:
        return BH_E_IO;
    }
}

__attribute__((format(printf, 3, 0))) static void fill(struct bh_diag *diag, const char *field,
                                                       const char *format, va_list arguments)
{
    (void)vsnprintf(diag->detail, sizeof diag->detail, format, arguments);
    (void)snprintf(diag->field, sizeof diag->field, "%s", field ? field : "");
}

int bh_err_set(struct bh_diag *diag, int error, const char *field, const char *format, ...)
{
    if (diag) {
        va_list arguments;
        va_start(arguments, format);
        fill(diag, field, format, arguments);
        va_end(arguments);
    }
    return error;
}

int bh_err_sys(struct bh_diag *diag, int errno_value, const char *format, ...)
{
    if (diag) {
        va_list arguments;
        va_start(arguments, format);
        fill(diag, NULL, format, arguments);
        va_end(arguments);
        size_t used = strlen(diag->detail);
        (void)snprintf(diag->detail + used, sizeof diag->detail - used, ": %s",
                       strerror(errno_value));
    }
    return bh_err_from_errno(errno_value);
}

_Noreturn void bh_err_bug(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "bulkhead: broken invariant at %s:%d: %s\n", file, line, condition);
    abort();
}
