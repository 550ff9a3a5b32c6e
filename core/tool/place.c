/* Opening what a command reads and writes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/base/text.h"
#include "core/tool/tool.h"
#include "core/wire/journal.h"

#define PATH_BYTES 4096

/* Whether an answer written there would destroy what a run left. */
static bool is_artifact(const char *path)
{
    static const char *const NAMES[] = {
        "events.bhe", "journal.bhj", "report.json", "spec.bin", "status.bin", "samples.0",
        "samples.1",  "lock",        "runtime",     "out.log",  "err.log",    "reclamation.json"};
    const char *name = bh_text_basename(path);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (strcmp(name, NAMES[i]) == 0)
            return access(path, F_OK) == 0;
    }
    return false;
}

int bh_tool_output_open(const char *path, bool binary, struct bh_tool_output *ret_output,
                        struct bh_diag *diag)
{
    if (!path) {
        if (binary && isatty(STDOUT_FILENO))
            return bh_err_set(diag, BH_E_USAGE, "-o",
                              "This is not for a terminal: name a file with -o");
        *ret_output = (struct bh_tool_output){STDOUT_FILENO, NULL};
        return BH_OK;
    }
    if (is_artifact(path))
        return bh_err_set(diag, BH_E_USAGE, "-o",
                          "That file is part of a run; choose another name");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return bh_err_sys(diag, errno, "The output file cannot be opened");
    *ret_output = (struct bh_tool_output){fd, path};
    return BH_OK;
}

int bh_tool_output_close(struct bh_tool_output *output, int error, struct bh_diag *diag)
{
    struct stat status;
    if (!output->path)
        return error;
    bool regular = fstat(output->fd, &status) == 0 && S_ISREG(status.st_mode);
    if (close(output->fd) != 0 && error >= 0)
        error = bh_err_sys(diag, errno, "The output file could not be written");
    if (error < 0 && regular)
        (void)unlink(output->path); /* half an answer looks like a whole one */
    return error;
}

struct bh_sink bh_tool_output_sink(const struct bh_tool_output *output)
{
    return bh_sink_fd(&output->fd);
}

/* The directory part of a file's path into buffer; "." when there is none. */
static const char *directory_of(const char *path, char *buffer, size_t size)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (!slash)
        return ".";
    if (length == 0)
        return "/";
    if (length >= size)
        return NULL;
    memcpy(buffer, path, length);
    buffer[length] = '\0';
    return buffer;
}

int bh_tool_open_place(const char *path, const char *name, int *ret_dirfd, const char **ret_name,
                       struct bh_diag *diag)
{
    struct stat status;
    char buffer[PATH_BYTES];
    if (stat(path, &status) != 0)
        return bh_err_sys(diag, errno, "%.200s cannot be opened", path);
    if (S_ISDIR(status.st_mode)) {
        *ret_name = name;
        return bh_io_open_dir(AT_FDCWD, path, ret_dirfd, diag);
    }
    const char *directory = directory_of(path, buffer, sizeof buffer), *slash = strrchr(path, '/');
    if (!directory)
        return bh_err_set(diag, BH_E_TOO_LONG, NULL, "The path is too long");
    *ret_name = slash ? slash + 1 : path;
    return bh_io_open_dir(AT_FDCWD, directory, ret_dirfd, diag);
}

/* The run id of the journal beside a missing event log. */
static void name_from_journal(int dirfd, char ret_id[static BH_JOB_ID_SIZE])
{
    unsigned char bytes[BH_JOURNAL_HEADER_BYTES];
    struct bh_journal_header header;
    BH_SCOPED_FD int fd = -1;
    ret_id[0] = '\0';
    if (bh_io_open(dirfd, BH_JOURNAL_FILE_NAME, O_RDONLY, &fd, NULL) >= 0 &&
        bh_io_read_full(fd, bytes, sizeof bytes) >= 0 &&
        bh_journal_header_decode(bytes, sizeof bytes, &header) >= 0)
        memcpy(ret_id, header.run_id, sizeof header.run_id);
}

static int load(struct bh_tool_trace *trace, const char *name, struct bh_diag *diag)
{
    int error = bh_trace_file_open(trace->dirfd, name, &trace->file, diag);
    if (error == BH_E_NO_TRACE) { /* a job without a recorder has a timeline all the same */
        name_from_journal(trace->dirfd, trace->run_id);
        return BH_OK;
    }
    if (error < 0)
        return error;
    trace->source = bh_trace_file_source(trace->file);
    memcpy(trace->run_id, trace->source->header.run_id, sizeof trace->run_id);
    error = bh_dictionary_new(&trace->dictionary);
    if (error >= 0)
        error = bh_dictionary_load(trace->dictionary, trace->source);
    if (error < 0)
        return bh_err_set(diag, error, NULL, "The event log's names cannot be read: %s",
                          bh_err_title(error));
    return BH_OK;
}

int bh_tool_trace_open(const char *path, struct bh_tool_trace *ret_trace, struct bh_diag *diag)
{
    struct bh_tool_trace trace = {.dirfd = -1};
    const char *name;
    int error = bh_tool_open_place(path, BH_EVLOG_FILE_NAME, &trace.dirfd, &name, diag);
    if (error >= 0)
        error = load(&trace, name, diag);
    if (error < 0) {
        bh_tool_trace_close(&trace);
        return error;
    }
    *ret_trace = trace;
    return BH_OK;
}

void bh_tool_trace_close(struct bh_tool_trace *trace)
{
    bh_dictionary_free(trace->dictionary);
    bh_trace_file_close(trace->file);
    if (trace->dirfd >= 0)
        (void)close(trace->dirfd);
    *trace = (struct bh_tool_trace){.dirfd = -1};
}
