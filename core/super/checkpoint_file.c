#include "core/super/checkpoint_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/wire/le.h"

#define ZIP_END_BYTES    22u
#define ZIP_COMMENT_MAX  65535u
#define SCAN_CHUNK_BYTES 4096u

static void mark_of(const struct stat *st, struct bh_checkpoint_mark *ret_mark)
{
    ret_mark->exists = true;
    ret_mark->inode = (uint64_t)st->st_ino;
    ret_mark->size_bytes = (uint64_t)st->st_size;
    ret_mark->mtime_ns =
        (int64_t)st->st_mtim.tv_sec * (int64_t)BH_NS_PER_S + (int64_t)st->st_mtim.tv_nsec;
}

void bh_checkpoint_file_mark(int dirfd, const char *path, struct bh_checkpoint_mark *ret_mark)
{
    struct stat st;
    memset(ret_mark, 0, sizeof *ret_mark);
    if (dirfd >= 0 && fstatat(dirfd, path, &st, 0) == 0)
        mark_of(&st, ret_mark);
}

bool bh_checkpoint_mark_equal(const struct bh_checkpoint_mark *left,
                              const struct bh_checkpoint_mark *right)
{
    return left->exists == right->exists && left->inode == right->inode &&
           left->size_bytes == right->size_bytes && left->mtime_ns == right->mtime_ns;
}

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

bool bh_checkpoint_file_whole(int dirfd, const char *path)
{
    struct stat st;
    BH_SCOPED_FD int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return false;
    if (S_ISDIR(st.st_mode))
        return true;
    if (ends_with(path, ".safetensors"))
        return is_whole_safetensors(fd, (uint64_t)st.st_size);
    if (ends_with(path, ".npz") || ends_with(path, ".zip"))
        return is_whole_zip(fd, (uint64_t)st.st_size);
    return st.st_size > 0;
}
