/* A directory of a test's own, removed at its end, and golden files. Unit tests only. */
#ifndef BH_TESTS_SCRATCH_H
#define BH_TESTS_SCRATCH_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/bytes.h"
#include "core/base/io.h"

struct scratch {
    char path[128];
    int fd;
};

static inline void scratch_open(struct scratch *scratch)
{
    (void)snprintf(scratch->path, sizeof scratch->path, "/tmp/bulkhead-test-XXXXXX");
    if (!mkdtemp(scratch->path) || bh_io_open_dir(AT_FDCWD, scratch->path, &scratch->fd, NULL) < 0)
        abort();
}

static inline void scratch_close(struct scratch *scratch)
{
    (void)close(scratch->fd);
    (void)bh_io_remove_tree(AT_FDCWD, scratch->path, NULL);
}

/* Path below the source tree. */
static inline void golden_path(const char *name, char *ret_path, size_t size)
{
    (void)snprintf(ret_path, size, "%s/tests/golden/%s", BH_SOURCE_DIR, name);
}

/* True when the bytes equal the golden file. With BH_GOLDEN_WRITE in the environment (only
 * tests/golden/regenerate.sh sets it) the file is written instead. */
static inline bool golden_equal(const char *name, const void *data, size_t length)
{
    char path[512];
    golden_path(name, path, sizeof path);
    if (getenv("BH_GOLDEN_WRITE")) {
        FILE *file = fopen(path, "wb");
        bool good = file && fwrite(data, 1, length, file) == length;
        if (file)
            good = fclose(file) == 0 && good;
        return good;
    }
    struct bh_bytes bytes = {0};
    bool good = bh_io_read_file(AT_FDCWD, path, 1u << 24, &bytes, NULL) == BH_OK &&
                bytes.length == length && memcmp(bytes.data, data, length) == 0;
    bh_bytes_done(&bytes);
    if (!good)
        (void)fprintf(stderr, "differs from tests/golden/%s\n", name);
    return good;
}

#endif
