#include "core/super/checkpoint_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/crc32c.h"
#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/wire/le.h"

#define ZIP_END_BYTES    22u
#define ZIP_COMMENT_MAX  65535u
#define SCAN_CHUNK_BYTES 4096u

/* ---- everything in a directory ---- */

struct walk {
    int (*visit)(struct walk *walk, int dirfd, const char *name, const struct stat *st);
    unsigned entries, files; /* seen; regular and not empty */
    struct bh_checkpoint_mark *mark;
};

/* Stops and returns what visit returned when that is below 0, or BH_E_TOO_LONG beyond the bounds.
 */
static int walk_tree(struct walk *walk, int dirfd, const char *name, unsigned depth)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
    if (fd < 0)
        return bh_err_from_errno(errno);
    DIR *list = fdopendir(fd);
    if (!list) {
        (void)close(fd);
        return BH_E_NOMEM;
    }
    const struct dirent *entry;
    int result = BH_OK;
    while (result >= 0 && (entry = readdir(list))) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* gone meanwhile: the next look says so */
        if (++walk->entries > BH_CHECKPOINT_ENTRIES || depth == BH_CHECKPOINT_DEPTH)
            result = BH_E_TOO_LONG;
        else
            result = walk->visit(walk, fd, entry->d_name, &st);
        if (result >= 0 && S_ISDIR(st.st_mode))
            result = walk_tree(walk, fd, entry->d_name, depth + 1);
    }
    (void)closedir(list);
    return result;
}

/* ---- marks ---- */

static int64_t mtime_of(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * (int64_t)BH_NS_PER_S + (int64_t)st->st_mtim.tv_nsec;
}

static uint64_t mix(uint64_t left, uint64_t right)
{
    uint64_t both = (left ^ right) * 0x9e3779b97f4a7c15;
    return both ^ both >> 32;
}

/* A sum: the order of a listing says nothing. */
static int mark_entry(struct walk *walk, int dirfd, const char *name, const struct stat *st)
{
    (void)dirfd;
    uint64_t one = mix(bh_crc32c(0, name, strlen(name)), (uint64_t)st->st_ino);
    if (!S_ISDIR(st->st_mode)) {
        one = mix(mix(one, (uint64_t)st->st_size), (uint64_t)mtime_of(st));
        walk->mark->size_bytes += (uint64_t)st->st_size;
        if (mtime_of(st) > walk->mark->mtime_ns)
            walk->mark->mtime_ns = mtime_of(st);
    }
    walk->mark->digest += one;
    return BH_OK;
}

void bh_checkpoint_file_mark(int dirfd, const char *path, struct bh_checkpoint_mark *ret_mark)
{
    struct stat st;
    memset(ret_mark, 0, sizeof *ret_mark);
    if (dirfd < 0 || fstatat(dirfd, path, &st, 0) < 0)
        return;
    *ret_mark = (struct bh_checkpoint_mark){.exists = true,
                                            .directory = S_ISDIR(st.st_mode),
                                            .inode = (uint64_t)st.st_ino,
                                            .mtime_ns = mtime_of(&st)};
    if (ret_mark->directory) {
        struct walk walk = {.visit = mark_entry, .mark = ret_mark};
        (void)walk_tree(&walk, dirfd, path, 0);
    } else {
        ret_mark->size_bytes = (uint64_t)st.st_size;
    }
}

bool bh_checkpoint_mark_equal(const struct bh_checkpoint_mark *left,
                              const struct bh_checkpoint_mark *right)
{
    return left->exists == right->exists && left->directory == right->directory &&
           left->inode == right->inode && left->size_bytes == right->size_bytes &&
           left->mtime_ns == right->mtime_ns && left->digest == right->digest;
}

/* ---- whole by its own format ---- */

/* The largest number behind "data_offsets":[a,b] in the JSON header, read in pieces without a
 * parser: the name cannot occur inside a tensor's name in any file a library writes, and a lie only
 * makes the file unverified or verified for its owner. */
static bool largest_offset(int fd, uint64_t header_bytes, uint64_t *ret_end)
{
    static const char key[] = "\"data_offsets\"";
    uint64_t largest = 0, number = 0;
    size_t matched = 0;
    bool in_list = false;
    unsigned char chunk[SCAN_CHUNK_BYTES];
    for (uint64_t at = 0; at < header_bytes; at += sizeof chunk) {
        size_t want = header_bytes - at < sizeof chunk ? (size_t)(header_bytes - at) : sizeof chunk;
        size_t got = 0;
        if (bh_io_pread(fd, chunk, want, 8 + at, &got) < 0 || got != want)
            return false;
        for (size_t i = 0; i < got; i++) {
            char c = (char)chunk[i];
            if (!in_list) {
                matched = c == key[matched] ? matched + 1 : (size_t)(c == key[0]);
                if (matched == sizeof key - 1) {
                    in_list = true;
                    matched = 0;
                    number = 0;
                }
                continue;
            }
            if (c >= '0' && c <= '9' && number < UINT64_MAX / 16)
                number = number * 10 + (uint64_t)(c - '0');
            if (c == ',' || c == ']') {
                largest = number > largest ? number : largest;
                number = 0;
            }
            in_list = c != ']';
        }
    }
    *ret_end = largest;
    return true;
}

static bool is_whole_safetensors(int fd, uint64_t size)
{
    unsigned char start[8];
    size_t got = 0;
    uint64_t end = 0;
    if (size < 8 || bh_io_pread(fd, start, sizeof start, 0, &got) < 0 || got != sizeof start)
        return false;
    uint64_t header = bh_le_get64(start);
    if (header > size - 8 || header > (100u << 20))
        return false;
    return largest_offset(fd, header, &end) && end == size - 8 - header;
}

/* The end record lies in the last 22 bytes plus a comment of at most 65,535. */
static bool is_whole_zip(int fd, uint64_t size)
{
    static const unsigned char magic[4] = {'P', 'K', 5, 6};
    unsigned char tail[SCAN_CHUNK_BYTES];
    uint64_t end = size, floor = size > ZIP_END_BYTES + ZIP_COMMENT_MAX
                                     ? size - ZIP_END_BYTES - ZIP_COMMENT_MAX
                                     : 0;
    while (end > floor) {
        uint64_t from = end - floor > sizeof tail ? end - sizeof tail : floor;
        size_t got = 0;
        if (bh_io_pread(fd, tail, (size_t)(end - from), from, &got) < 0 || got != end - from)
            return false;
        for (size_t i = got; i >= ZIP_END_BYTES; i--) {
            const unsigned char *at = tail + i - ZIP_END_BYTES;
            uint64_t comment_end = from + (i - ZIP_END_BYTES) + ZIP_END_BYTES;
            if (memcmp(at, magic, sizeof magic) == 0 && comment_end + bh_le_get16(at + 20) == size)
                return true;
        }
        if (from == floor)
            break;
        end = from + ZIP_END_BYTES - 1; /* a record may straddle two pieces */
    }
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), part = strlen(end);
    return length >= part && strcmp(text + length - part, end) == 0;
}

static bool is_whole_file(int dirfd, const char *name, int flags)
{
    struct stat st;
    BH_SCOPED_FD int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    if (ends_with(name, ".safetensors"))
        return is_whole_safetensors(fd, (uint64_t)st.st_size);
    if (ends_with(name, ".npz") || ends_with(name, ".zip"))
        return is_whole_zip(fd, (uint64_t)st.st_size);
    return st.st_size > 0;
}

static int check_entry(struct walk *walk, int dirfd, const char *name, const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return BH_OK;
    walk->files += st->st_size > 0;
    bool known =
        ends_with(name, ".safetensors") || ends_with(name, ".npz") || ends_with(name, ".zip");
    return !known || is_whole_file(dirfd, name, O_NOFOLLOW) ? BH_OK : BH_E_TRUNCATED;
}

bool bh_checkpoint_file_whole(int dirfd, const char *path)
{
    struct stat st;
    if (fstatat(dirfd, path, &st, 0) < 0)
        return false;
    if (!S_ISDIR(st.st_mode))
        return is_whole_file(dirfd, path, 0);
    struct walk walk = {.visit = check_entry};
    return walk_tree(&walk, dirfd, path, 0) == BH_OK && walk.files > 0;
}
