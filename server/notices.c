/* notices.h */
#include "server/notices.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/text.h"

static const char PREFIX[] = "bulkhead.db.damaged-";

/* The time in the name of a database that was moved aside; its -wal and -shm go with it unsaid. */
static bool read_name(const char *name, struct bh_wall *ret_at)
{
    uint64_t seconds;
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0)
        return false;
    const char *digits = name + sizeof PREFIX - 1;
    if (bh_text_u64(digits, NULL, UINT32_MAX, &seconds, NULL) < 0)
        return false;
    ret_at->us = (int64_t)seconds * 1000000;
    return true;
}

/* Where a notice of this time goes: index among the newest, BH_NOTICES_MAX = nowhere. */
static size_t make_room(struct bh_notices *notices, struct bh_wall at)
{
    size_t i = 0;
    while (i < notices->count && notices->views[i].at.us >= at.us)
        i++;
    if (i == BH_NOTICES_MAX)
        return i;
    if (notices->count < BH_NOTICES_MAX)
        notices->count++;
    for (size_t j = notices->count - 1; j > i; j--) {
        notices->views[j] = notices->views[j - 1];
        memcpy(notices->texts[j], notices->texts[j - 1], sizeof notices->texts[j]);
    }
    return i;
}

void bh_notices_read(struct bh_notices *notices, int state_fd, const char *aside,
                     const char *reason)
{
    int fd = openat(state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    struct bh_wall at;
    *notices = (struct bh_notices){.count = 0};
    if (!folder) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    while ((entry = readdir(folder)) != NULL) {
        if (!read_name(entry->d_name, &at))
            continue;
        size_t i = make_room(notices, at);
        if (i == BH_NOTICES_MAX)
            continue;
        bool now = strcmp(entry->d_name, aside) == 0 && reason[0] != '\0';
        (void)snprintf(notices->texts[i], sizeof notices->texts[i],
                       "The server's database was damaged%s%.300s%s. It was moved aside and built "
                       "anew from the jobs' own files. The old one is %.40s in the state folder; "
                       "this notice goes when that file is removed.",
                       now ? " (" : "", now ? reason : "", now ? ")" : "", entry->d_name);
        notices->views[i] = (struct bh_notice_view){.code = "database_rebuilt", .at = at};
    }
    (void)closedir(folder);
    for (size_t i = 0; i < notices->count; i++)
        notices->views[i].detail = notices->texts[i];
}
