/* Scope-bound release through the cleanup attribute:
 *     BH_SCOPED_FD int fd = open(…);
 * Not together with `goto out` in one function. */
#ifndef BH_BASE_SCOPED_H
#define BH_BASE_SCOPED_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void bh_scoped_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* never retried: the descriptor is gone whatever close answers */
}

/* The same for a descriptor that lives longer than a scope: closed once, -1 from then on. */
static inline void bh_close_fd(int *fd)
{
    bh_scoped_close(fd);
    *fd = -1;
}

static inline void bh_scoped_free(void *pointer)
{
    free(*(void **)pointer);
}

static inline void bh_scoped_fclose(FILE **file)
{
    if (*file)
        (void)fclose(*file);
}

#define BH_SCOPED_FD   __attribute__((cleanup(bh_scoped_close)))
#define BH_SCOPED_FREE __attribute__((cleanup(bh_scoped_free)))
#define BH_SCOPED_FILE __attribute__((cleanup(bh_scoped_fclose)))

/* Takes the value out of a scoped descriptor, so that it survives the scope. */
static inline int bh_scoped_take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#endif
