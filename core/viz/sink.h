/* Where an exporter's bytes go: a file, a socket with back pressure, a buffer in a test. */
#ifndef BH_VIZ_SINK_H
#define BH_VIZ_SINK_H

#include <stddef.h>

#include "core/base/bytes.h"

struct bh_sink {
    /* Takes all of the piece, in order; may block. < 0 ends the export with that error. */
    int (*write)(void *context, const void *data, size_t length);
    void *context;
};

/* Appends to a buffer (borrowed); BH_E_NOMEM when it cannot grow. */
struct bh_sink bh_sink_bytes(struct bh_bytes *bytes);
/* Writes to a descriptor; *fd is borrowed and must outlive the sink. */
struct bh_sink bh_sink_fd(const int *fd);

#endif
