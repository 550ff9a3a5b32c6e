#include "core/viz/sink.h"

#include "core/base/err.h"
#include "core/base/io.h"

static int write_bytes(void *context, const void *data, size_t length)
{
    struct bh_bytes *bytes = context;
    bh_bytes_append(bytes, data, length);
    return bytes->failed ? BH_E_NOMEM : BH_OK;
}

static int write_fd(void *context, const void *data, size_t length)
{
    const int *fd = context;
    return bh_io_write_full(*fd, data, length);
}

struct bh_sink bh_sink_bytes(struct bh_bytes *bytes)
{
    return (struct bh_sink){write_bytes, bytes};
}

struct bh_sink bh_sink_fd(const int *fd)
{
    /* The callback's context is not const; write_fd only reads it. */
    union {
        const int *in;
        void *out;
    } context = {.in = fd};
    return (struct bh_sink){write_fd, context.out};
}
