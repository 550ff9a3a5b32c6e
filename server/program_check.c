#include "server/program_check.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/scoped.h"

#define MAX_PATH 4096

static const char *search_path(const struct bh_job_spec *spec)
{
    for (size_t i = 0; i < spec->env_count; i++) {
        if (strcmp(spec->env[i].key, "PATH") == 0)
            return spec->env[i].value;
    }
    const char *own = spec->clear_env ? NULL : getenv("PATH");
    return own ? own : "/usr/local/bin:/usr/bin:/bin";
}

static int open_in_path(const char *name, const char *path)
{
    while (*path) {
        char file[MAX_PATH];
        size_t length = strcspn(path, ":");
        if (length &&
            snprintf(file, sizeof file, "%.*s/%s", (int)length, path, name) < (int)sizeof file &&
            access(file, X_OK) == 0)
            return open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        path += length + (path[length] == ':');
    }
    return -1;
}

static int open_program(const struct bh_job_spec *spec)
{
    const char *name = spec->argc ? spec->argv[0] : "";
    char file[MAX_PATH];
    if (!strchr(name, '/'))
        return open_in_path(name, search_path(spec));
    const char *folder = name[0] != '/' && spec->cwd ? spec->cwd : "";
    if (snprintf(file, sizeof file, "%s%s%s", folder, *folder ? "/" : "", name) >= (int)sizeof file)
        return -1;
    return open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* A 64-bit ELF program without PT_INTERP is static. */
static bool is_static(int fd)
{
    Elf64_Ehdr header;
    Elf64_Phdr program;
    size_t length = 0;
    if (bh_io_pread(fd, &header, sizeof header, 0, &length) < 0 || length != sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof program)
        return false;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        if (bh_io_pread(fd, &program, sizeof program, header.e_phoff + i * sizeof program,
                        &length) < 0 ||
            length != sizeof program)
            return false;
        if (program.p_type == PT_INTERP)
            return false;
    }
    return header.e_phnum > 0;
}

enum bh_program bh_program_check(const struct bh_job_spec *spec)
{
    struct stat st;
    BH_SCOPED_FD int fd = open_program(spec);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return BH_PROGRAM_FINE;
    if (st.st_mode & (S_ISUID | S_ISGID))
        return BH_PROGRAM_SETUID;
    return is_static(fd) ? BH_PROGRAM_STATIC : BH_PROGRAM_FINE;
}
