#include "core/super/correlation.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/random.h"
#include "core/base/scoped.h"
#include "core/base/siphash.h"

/* ---- the state directory ---- */

/* A job of a server lies in <state>/jobs/<id>; any other folder up there is not ours to write in.
 */
static int open_around(const struct bh_run *run, int *ret_fd)
{
    if (run->foreground ||
        faccessat(run->run_fd, "../../server.lock", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return BH_E_NOT_FOUND;
    return bh_io_open_dir(run->run_fd, "../..", ret_fd, NULL);
}

static int open_users(int *ret_fd)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char path[PATH_MAX];
    int n = state && state[0] == '/' ? snprintf(path, sizeof path, "%s/bulkhead", state)
            : home && home[0] == '/' ? snprintf(path, sizeof path, "%s/.local/state/bulkhead", home)
                                     : -1;
    if (n < 0 || (size_t)n >= sizeof path)
        return BH_E_NOT_FOUND;
    return bh_io_open_dir(AT_FDCWD, path, ret_fd, NULL);
}

/* ---- the key ---- */

static int read_key(int state_fd, unsigned char *ret_key)
{
    struct bh_bytes bytes = {0};
    int result =
        bh_io_read_file(state_fd, BH_CORRELATION_KEY_NAME, BH_SIPHASH_KEY_BYTES, &bytes, NULL);
    if (result == BH_OK && bytes.length != BH_SIPHASH_KEY_BYTES)
        result = BH_E_MALFORMED;
    if (result == BH_OK)
        memcpy(ret_key, bytes.data, BH_SIPHASH_KEY_BYTES);
    bh_bytes_done(&bytes);
    return result;
}

/* Whole or not at all, and never in place of another's: a link refuses a name that is taken. */
static int make_key(int state_fd, const char *run_id)
{
    unsigned char key[BH_SIPHASH_KEY_BYTES];
    char name[64];
    BH_SCOPED_FD int fd = -1;
    (void)snprintf(name, sizeof name, "%s.%s", BH_CORRELATION_KEY_NAME, run_id);
    int result = bh_random_bytes(key, sizeof key);
    if (result == BH_OK)
        result = bh_io_create(state_fd, name, O_WRONLY, &fd, NULL);
    if (result < 0)
        return result;
    result = bh_io_write_full(fd, key, sizeof key);
    if (result == BH_OK &&
        (fsync(fd) < 0 ||
         (linkat(state_fd, name, state_fd, BH_CORRELATION_KEY_NAME, 0) < 0 && errno != EEXIST)))
        result = bh_err_from_errno(errno);
    (void)unlinkat(state_fd, name, 0);
    return result;
}

static int find_key(const struct bh_run *run, unsigned char *ret_key)
{
    BH_SCOPED_FD int state_fd = -1;
    int result = open_around(run, &state_fd);
    if (result < 0)
        result = open_users(&state_fd);
    if (result < 0)
        return result;
    result = read_key(state_fd, ret_key);
    if (result != BH_E_NOT_FOUND)
        return result;
    result = make_key(state_fd, run->id);
    return result < 0 ? result : read_key(state_fd, ret_key);
}

/* ---- the hash ---- */

/* Directory and arguments, each with its end. */
static void spell(const struct bh_job_spec *spec, struct bh_bytes *text)
{
    char here[PATH_MAX];
    const char *cwd = spec->cwd ? spec->cwd : getcwd(here, sizeof here);
    bh_bytes_append_text(text, cwd ? cwd : "");
    bh_bytes_append(text, "", 1);
    for (size_t i = 0; i < spec->argc; i++)
        bh_bytes_append(text, spec->argv[i], strlen(spec->argv[i]) + 1);
}

void bh_correlation_hash(const struct bh_run *run, char ret_text[static BH_CORRELATION_SIZE])
{
    unsigned char key[BH_SIPHASH_KEY_BYTES], hash[BH_SIPHASH_BYTES];
    struct bh_bytes text = {0};
    ret_text[0] = '\0';
    if (find_key(run, key) < 0)
        return;
    spell(run->spec, &text);
    if (!text.failed) {
        bh_siphash(key, text.data, text.length, hash);
        for (size_t i = 0; i < sizeof hash; i++)
            (void)snprintf(ret_text + 2 * i, 3, "%02x", hash[i]);
    }
    bh_bytes_done(&text);
}
