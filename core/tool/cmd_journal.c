/* journal verify, journal dump. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/tool/record_json.h"
#include "core/tool/tool.h"
#include "core/wire/journal.h"

#define KINDS 64

struct summary {
    uint64_t records, by_kind[KINDS], lost_records, lost_samples;
    struct bh_mono first, last;
};

static int open_journal(const char *path, int *ret_fd, struct bh_journal_reader **ret_reader,
                        struct bh_diag *diag)
{
    BH_SCOPED_FD int dirfd = -1;
    const char *name;
    int error = bh_tool_open_place(path, BH_JOURNAL_FILE_NAME, &dirfd, &name, diag);
    if (error >= 0)
        error = bh_io_open(dirfd, name, O_RDONLY, ret_fd, diag);
    return error < 0 ? error : bh_journal_reader_new(*ret_fd, ret_reader, diag);
}

static void count(struct summary *summary, const struct bh_record *record)
{
    unsigned kind = (unsigned)record->kind;
    if (summary->records++ == 0)
        summary->first = record->at;
    summary->last = record->at;
    summary->by_kind[kind < KINDS ? kind : 0]++;
    if (record->kind == BH_RECORD_LOSSES) {
        summary->lost_records += record->losses.records;
        summary->lost_samples += record->losses.samples;
    }
}

static void print_summary(const struct summary *summary, const struct bh_journal_reader *reader,
                          int fd)
{
    struct stat status;
    enum bh_journal_end end = bh_journal_reader_end(reader);
    uint64_t valid = bh_journal_reader_offset(reader);
    uint64_t size = fstat(fd, &status) == 0 ? (uint64_t)status.st_size : valid;
    printf("run      %s\n", bh_journal_reader_header(reader)->run_id);
    printf("end      %s\n", bh_journal_end_text((int)end));
    printf("records  %" PRIu64 " in %" PRIu64 " bytes, %" PRIu64 " bytes behind them\n",
           summary->records, valid, size - valid);
    printf("lost     %" PRIu64 " records, %" PRIu64 " samples\n", summary->lost_records,
           summary->lost_samples);
    printf("spans    %.3f s\n", (double)(summary->last.ns - summary->first.ns) / 1e9);
    for (unsigned i = 0; i < KINDS; i++) {
        if (summary->by_kind[i])
            printf("  %-16s %" PRIu64 "\n", bh_record_kind_text((int)i), summary->by_kind[i]);
    }
}

/* Exit status: 0 complete or still growing, 65 corrupt. */
int bh_tool_journal_verify(int argc, char **argv, struct bh_diag *diag)
{
    struct bh_tool_usage usage = {
        "journal verify RUNDIR|FILE",
        "Exit status 0: all records are sound (\"truncated\" is a run that goes on or was cut off\n"
        "between records); 65: corrupt, what lies before the bad record is still valid.\n",
        NULL, 0};
    const char *path;
    BH_SCOPED_FD int fd = -1;
    struct bh_journal_reader *reader;
    struct summary summary = {0};
    struct bh_record record;
    int more = bh_tool_parse(&usage, argc, argv, &path, diag);
    if (more != 0)
        return more < 0 ? more : 0;
    more = open_journal(path, &fd, &reader, diag);
    if (more < 0)
        return more;
    while ((more = bh_journal_reader_next(reader, &record)) > 0)
        count(&summary, &record);
    print_summary(&summary, reader, fd);
    bool corrupt = bh_journal_reader_end(reader) == BH_JOURNAL_CORRUPT;
    bh_journal_reader_free(reader);
    if (!corrupt)
        return 0;
    return bh_err_set(diag, more < 0 ? more : BH_E_MALFORMED, NULL,
                      "The journal is corrupt behind its valid records");
}

static int dump(struct bh_journal_reader *reader, struct bh_sink sink)
{
    struct bh_anchor anchor = bh_journal_reader_header(reader)->anchor;
    struct bh_bytes out = {0};
    struct bh_record record;
    int more;
    while ((more = bh_journal_reader_next(reader, &record)) > 0) {
        bh_tool_record_json(&out, &record, anchor);
        more = out.failed ? BH_E_NOMEM : sink.write(sink.context, out.data, out.length);
        bh_bytes_clear(&out);
        if (more < 0)
            break;
    }
    bh_bytes_done(&out);
    return more;
}

int bh_tool_journal_dump(int argc, char **argv, struct bh_diag *diag)
{
    const char *path, *out = NULL;
    struct bh_tool_option options[] = {
        {"-o", BH_TOOL_TEXT, &out, 0, "FILE", "write there instead of stdout", false}};
    struct bh_tool_usage usage = {
        "journal dump [-o FILE] RUNDIR|FILE",
        "Also for samples.0 and samples.1, the last minute at full rate.\n", options, 1};
    BH_SCOPED_FD int fd = -1;
    struct bh_journal_reader *reader;
    struct bh_tool_output output;
    int error = bh_tool_parse(&usage, argc, argv, &path, diag);
    if (error != 0)
        return error < 0 ? error : 0;
    error = open_journal(path, &fd, &reader, diag);
    if (error < 0)
        return error;
    error = bh_tool_output_open(out, false, &output, diag);
    if (error >= 0) {
        error = dump(reader, bh_tool_output_sink(&output));
        if (error < 0)
            (void)bh_err_set(diag, error, NULL, "The dump ends early: %s", bh_err_title(error));
        error = bh_tool_output_close(&output, error, diag);
    }
    bh_journal_reader_free(reader);
    return error;
}
