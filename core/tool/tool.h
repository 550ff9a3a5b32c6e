/* What the commands of bulkhead-tool share: strict options, output, opening of run directories. */
#ifndef BH_TOOL_TOOL_H
#define BH_TOOL_TOOL_H

#include "core/viz/dictionary.h"
#include "core/viz/sink.h"
#include "core/viz/source.h"

/* ---- options ---- */
enum bh_tool_kind {
    BH_TOOL_FLAG, /* bool */
    BH_TOOL_TEXT, /* const char * */
    BH_TOOL_U64,  /* uint64_t, at most `maximum` */
    BH_TOOL_US,   /* int64_t, epoch microseconds */
};

struct bh_tool_option {
    const char *name; /* "--points" */
    enum bh_tool_kind kind;
    void *target;
    uint64_t maximum;
    const char *argument; /* "N" in the help; "" for flags */
    const char *help;
    bool given; /* set by the parser */
};

struct bh_tool_usage {
    const char *line; /* "live [options] RUNDIR" */
    const char *text; /* lines below it, or "" */
    struct bh_tool_option *options;
    size_t count;
};

/* Parses argv: options of the table and exactly one positional argument. Returns 1 when --help was
 * asked for and printed, else 0, or BH_E_USAGE and BH_E_INVALID_VALUE. */
int bh_tool_parse(const struct bh_tool_usage *usage, int argc, char **argv, const char **ret_path,
                  struct bh_diag *diag);

/* One of a list of words; BH_E_INVALID_VALUE names them. Returns the index. */
int bh_tool_word(const char *text, const char *const *words, size_t count, const char *field,
                 struct bh_diag *diag);

/* ---- output ---- */
struct bh_tool_output {
    int fd;
    const char *path; /* NULL = stdout */
};
/* path NULL = stdout. A terminal is refused for `binary` output. */
int bh_tool_output_open(const char *path, bool binary, struct bh_tool_output *ret_output,
                        struct bh_diag *diag);
/* error: how the writing went. Answers it, or an error of the closing. A file that is not whole is
 * removed. */
int bh_tool_output_close(struct bh_tool_output *output, int error, struct bh_diag *diag);
struct bh_sink bh_tool_output_sink(const struct bh_tool_output *output);

/* ---- input ---- */
/* path is a directory (then `name` inside it) or a file. ret_dirfd: the caller's; ret_name: into
 * path or name. */
int bh_tool_open_place(const char *path, const char *name, int *ret_dirfd, const char **ret_name,
                       struct bh_diag *diag);

/* The event log of a run directory (or events.bhe itself). Without events: file and source are NULL
 * and run_id comes from the journal, or is "". */
struct bh_tool_trace {
    int dirfd;
    struct bh_trace_file *file;           /* owned */
    const struct bh_trace_source *source; /* into file */
    struct bh_dictionary *dictionary;     /* owned; NULL without a source */
    char run_id[BH_JOB_ID_SIZE];
};
int bh_tool_trace_open(const char *path, struct bh_tool_trace *ret_trace, struct bh_diag *diag);
void bh_tool_trace_close(struct bh_tool_trace *trace);

/* ---- commands: argv[0] is the first option or argument; they answer an exit status ---- */
#define BH_TOOL_COMMAND(function, first, second, text)                                             \
    int bh_tool_##function(int argc, char **argv, struct bh_diag *diag);
#include "core/tool/commands.def"
#undef BH_TOOL_COMMAND

#endif
