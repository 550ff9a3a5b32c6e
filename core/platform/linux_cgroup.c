/* Control groups as a ceiling above us: read, never written here. Version 2 (also in its hybrid
 * place) and version 1's memory controller. */
#ifdef __linux__

#include "core/platform/linux_read.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static uint64_t read_limit(const char *path)
{
    char text[64];
    if (bh_linux_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    const char *at = text;
    uint64_t value = bh_linux_number(&at);          /* "max" has no digits */
    return value < ((uint64_t)1 << 60) ? value : 0; /* version 1 says "none" with a huge number */
}

/* The smallest along the path from our group up to the root. */
static uint64_t smallest_above(const char *root, const char *group, const char *file)
{
    char path[1024];
    uint64_t smallest = 0;
    size_t length = strlen(group);
    for (;;) {
        int n = snprintf(path, sizeof path, "%s%.*s/%s", root, (int)length, group, file);
        if (n < 0 || (size_t)n >= sizeof path)
            return smallest;
        uint64_t limit = read_limit(path);
        if (limit && (!smallest || limit < smallest))
            smallest = limit;
        if (!length)
            return smallest;
        do
            length--;
        while (length && group[length] != '/');
    }
}

uint64_t bh_linux_outer_limit(void)
{
    char text[4096];
    if (bh_linux_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) <= 0)
        return 0;
    uint64_t smallest = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *controllers = strchr(line, ':');
        const char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        group++;
        if (strcmp(group, "/") == 0)
            group = "";
        uint64_t limit = 0;
        if (strncmp(controllers, "::", 2) == 0) {
            limit = smallest_above("/sys/fs/cgroup", group, "memory.max");
            if (!limit)
                limit = smallest_above("/sys/fs/cgroup/unified", group, "memory.max");
        } else if (strstr(controllers, ":memory:") || strstr(controllers, ",memory")) {
            limit = smallest_above("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
        }
        if (limit && (!smallest || limit < smallest))
            smallest = limit;
    }
    return smallest;
}

#endif
