#include "server/static.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/reply.h"
#include "core/base/crc32c.h"
#include "core/base/io.h"
#include "core/base/scoped.h"

#define MAX_FILES 128
#define MAX_BYTES (4u << 20)
#define MAX_DEPTH 3

struct file {
    char path[160]; /* "/assets/app.js" */
    const char *type;
    struct bh_bytes bytes;
    char etag[24];
};

struct bh_static {
    struct file files[MAX_FILES];
    unsigned count;
};

static const char *const types[][2] = {
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".mjs", "text/javascript; charset=utf-8"},
    {".json", "application/json"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".ico", "image/x-icon"},
    {".woff2", "font/woff2"},
    {".txt", "text/plain; charset=utf-8"},
    {".webmanifest", "application/manifest+json"},
};

static const char *type_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(dot, types[i][0]) == 0)
            return types[i][1];
    }
    return NULL;
}

static bool good_name(const char *name)
{
    if (name[0] == '.')
        return false;
    return name[strspn(
               name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")] == '\0';
}

static int read_file(struct bh_static *files, int dirfd, const char *name, const char *path)
{
    struct file *file = &files->files[files->count];
    size_t length = 0;
    /* installed files belong to root: no owner check here, unlike in a run directory */
    BH_SCOPED_FD int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > MAX_BYTES)
        return BH_OK;
    unsigned char *room = bh_bytes_reserve(&file->bytes, (size_t)st.st_size + 1);
    if (!room)
        return BH_E_NOMEM;
    int result = bh_io_pread(fd, room, (size_t)st.st_size, 0, &length);
    if (result < 0)
        return result;
    file->bytes.length = length;
    (void)snprintf(file->path, sizeof file->path, "%s", path);
    (void)snprintf(file->etag, sizeof file->etag, "\"%08x-%zx\"",
                   bh_crc32c(0, file->bytes.data, length), length);
    file->type = type_of(name);
    files->count++;
    return BH_OK;
}

static int read_folder(struct bh_static *files, int fd, const char *prefix, int depth)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return bh_err_from_errno(errno);
    }
    int result = BH_OK;
    for (struct dirent *entry = readdir(dir); entry && result >= 0; entry = readdir(dir)) {
        char path[160];
        if (!good_name(entry->d_name) || files->count == MAX_FILES ||
            snprintf(path, sizeof path, "%s/%s", prefix, entry->d_name) >= (int)sizeof path)
            continue;
        int child = depth < MAX_DEPTH ? openat(dirfd(dir), entry->d_name,
                                               O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
                                      : -1;
        if (child >= 0)
            result = read_folder(files, child, path, depth + 1);
        else if (type_of(entry->d_name))
            result = read_file(files, dirfd(dir), entry->d_name, path);
    }
    (void)closedir(dir);
    return result;
}

int bh_static_load(const char *directory, struct bh_static **ret_static, struct bh_diag *diag)
{
    struct bh_static *files = calloc(1, sizeof *files);
    if (!files)
        return BH_E_NOMEM;
    int fd = *directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int result = fd >= 0 ? read_folder(files, fd, "", 1) : BH_OK;
    if (result < 0) {
        bh_static_free(files);
        return bh_err_set(diag, result, "web", "the page's files cannot be read");
    }
    *ret_static = files;
    return BH_OK;
}

void bh_static_free(struct bh_static *files)
{
    if (!files)
        return;
    for (unsigned i = 0; i < MAX_FILES; i++)
        bh_bytes_done(&files->files[i].bytes);
    free(files);
}

static const struct file *find(const struct bh_static *files, const char *path)
{
    if (strcmp(path, "/") == 0)
        path = "/index.html";
    for (unsigned i = 0; i < files->count; i++) {
        if (strcmp(files->files[i].path, path) == 0)
            return &files->files[i];
    }
    return NULL;
}

bool bh_static_has(const struct bh_static *files, const char *path)
{
    return strcmp(path, "/") == 0 || find(files, path) != NULL;
}

void bh_static_answer(const struct bh_static *files, struct bh_call *call)
{
    const struct file *file = find(files, call->path);
    if (!file) {
        bh_reply_text(
            call, 200,
            "Bulkhead runs. Its page is not installed here; the API is below /v1, described "
            "by /openapi.json.\n");
        return;
    }
    const char *known = call->header(call, "If-None-Match");
    bh_reply_header(call, "ETag", "%s", file->etag);
    /* asked again each time: the file's name stays the same over an update */
    bh_reply_header(call, "Cache-Control", "no-cache");
    if (known && strcmp(known, file->etag) == 0) {
        bh_reply_empty(call, 304);
        return;
    }
    bh_bytes_append(&call->reply.body, file->bytes.data, file->bytes.length);
    bh_reply_body(call, 200, file->type);
}
