#ifdef __linux__

#include "core/platform/linux_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int bh_linux_open_error(int errno_value)
{
    /* out of descriptors is a hole in the total, not a broken disk */
    return errno_value == EMFILE || errno_value == ENFILE ? BH_E_NOSPACE
                                                          : bh_err_from_errno(errno_value);
}

int bh_linux_pread(int fd, char *buffer, size_t size)
{
    size_t used = 0;
    while (used + 1 < size) {
        ssize_t n = pread(fd, buffer + used, size - 1 - used, (off_t)used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_from_errno(errno);
        used += (size_t)n;
        /* /proc answers a small file in one piece: a short read is its end */
        if (n == 0 || used < 1024)
            break;
    }
    buffer[used] = '\0';
    return (int)used;
}

int bh_linux_read_at(int dirfd, const char *name, char *buffer, size_t size)
{
    int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return bh_linux_open_error(errno);
    int result = bh_linux_pread(fd, buffer, size);
    (void)close(fd);
    return result;
}

uint64_t bh_linux_number(const char **text)
{
    const char *at = *text;
    while (*at == ' ' || *at == '\t' || *at == '\n')
        at++;
    bool negative = *at == '-';
    at += negative;
    uint64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    *text = at;
    return negative ? 0 : value; /* -1 in stat stands for "has none any more" */
}

bool bh_linux_kb(const char *text, const char *key, uint64_t *ret_bytes)
{
    size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, key, length) == 0 && line[length] == ':') {
            line += length + 1;
            *ret_bytes = bh_linux_number(&line) * 1024;
            return true;
        }
    }
    return false;
}

struct linux_dirent {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

static int entry_number(const char *name)
{
    int value = 0;
    for (; *name; name++) {
        if (*name < '0' || *name > '9' || value > 100000000)
            return 0;
        value = value * 10 + (*name - '0');
    }
    return value;
}

int bh_linux_each_number(int dir_fd, int (*visit)(void *context, int number), void *context)
{
    _Alignas(struct linux_dirent) char buffer[4096];
    if (lseek(dir_fd, 0, SEEK_SET) < 0)
        return bh_err_from_errno(errno);
    for (;;) {
        long n = syscall(SYS_getdents64, dir_fd, buffer, sizeof buffer);
        if (n <= 0)
            return n < 0 ? bh_err_from_errno(errno) : BH_OK;
        for (long at = 0; at < n;) {
            const struct linux_dirent *entry = (const struct linux_dirent *)(void *)(buffer + at);
            int number = entry_number(entry->name);
            int result = number > 0 ? visit(context, number) : BH_OK;
            if (result < 0)
                return result;
            at += entry->length;
        }
    }
}

struct number_list {
    int *numbers;
    size_t capacity, count;
};

static int keep_number(void *context, int number)
{
    struct number_list *list = context;
    if (list->count == list->capacity)
        return BH_E_TOO_LONG;
    list->numbers[list->count++] = number;
    return BH_OK;
}

int bh_linux_list_numbers(int dir_fd, int *ret_numbers, size_t capacity, size_t *ret_count)
{
    struct number_list list = {.numbers = ret_numbers, .capacity = capacity};
    int result = bh_linux_each_number(dir_fd, keep_number, &list);
    *ret_count = list.count;
    return result;
}

#endif
