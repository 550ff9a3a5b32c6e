/* report rebuild: the fold of the journal again. report: it in plain words, and --with-trace who
 * held memory. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/model/report.h"
#include "core/tool/facts.h"
#include "core/tool/report_text.h"
#include "core/tool/tool.h"
#include "core/viz/live_text.h"
#include "core/wire/journal.h"

static int fold(const char *path, struct bh_report **ret_report, struct bh_diag *diag)
{
    BH_SCOPED_FD int dirfd = -1;
    BH_SCOPED_FD int fd = -1;
    const char *name;
    struct bh_journal_reader *reader;
    struct bh_record record;
    int error = bh_tool_open_place(path, BH_JOURNAL_FILE_NAME, &dirfd, &name, diag);
    if (error >= 0)
        error = bh_io_open(dirfd, name, O_RDONLY, &fd, diag);
    if (error >= 0)
        error = bh_journal_reader_new(fd, &reader, diag);
    if (error < 0)
        return error;
    struct bh_report *report = bh_report_new();
    if (report) {
        const struct bh_journal_header *header = bh_journal_reader_header(reader);
        bh_report_begin(report, header->run_id, header->anchor);
        while (bh_journal_reader_next(reader, &record) > 0)
            bh_report_add(report, &record);
        bh_report_finish(report, bh_journal_reader_end(reader) == BH_JOURNAL_COMPLETE);
    }
    bh_journal_reader_free(reader);
    if (!report)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "No memory for the report");
    *ret_report = report;
    return BH_OK;
}

/* Offset of local time at the end of the run, as the supervisor takes it. */
static int utc_offset_s(const struct bh_report *report)
{
    time_t at = (time_t)(bh_clock_epoch_us(report->anchor, report->last_at) / 1000000);
    struct tm local;
    return localtime_r(&at, &local) ? (int)local.tm_gmtoff : 0;
}

static int render(const struct bh_report *report, const char *out, struct bh_diag *diag)
{
    struct bh_bytes json = {0};
    struct bh_tool_output output;
    int error = bh_report_validate(report, diag);
    if (error < 0)
        return error;
    error = bh_report_render(report, utc_offset_s(report), &json);
    if (error < 0)
        (void)bh_err_set(diag, error, NULL, "No memory for the report");
    else
        error = bh_tool_output_open(out, false, &output, diag);
    if (error >= 0) {
        error = bh_io_write_full(output.fd, json.data, json.length);
        if (error < 0)
            (void)bh_err_set(diag, error, NULL, "The report could not be written");
        error = bh_tool_output_close(&output, error, diag);
    }
    bh_bytes_done(&json);
    return error;
}

int bh_tool_report_rebuild(int argc, char **argv, struct bh_diag *diag)
{
    const char *path, *out = NULL;
    struct bh_report *report;
    struct bh_tool_option options[] = {
        {"-o", BH_TOOL_TEXT, &out, 0, "FILE", "write there instead of stdout", false}};
    struct bh_tool_usage usage = {"report rebuild [-o FILE] RUNDIR|journal.bhj",
                                  "Exit status 74: the journal gives no valid report.\n", options,
                                  1};
    int error = bh_tool_parse(&usage, argc, argv, &path, diag);
    if (error != 0)
        return error < 0 ? error : 0;
    error = fold(path, &report, diag);
    if (error < 0)
        return error;
    error = render(report, out, diag);
    bh_report_free(report);
    return error;
}

/* ---- in plain words ---- */

static int print_words(const char *path, bool facts, struct bh_diag *diag)
{
    struct bh_report *report;
    struct bh_outcome_story story;
    char sentence[320];
    int error = fold(path, &report, diag);
    if (error < 0)
        return error;
    if (report->has_outcome) {
        bh_report_story(report, &story);
        printf("%s\n",
               bh_outcome_sentence(&story, utc_offset_s(report), sentence, sizeof sentence));
    } else {
        printf("The run %s has no outcome yet.\n", report->run_id);
    }
    if (facts)
        bh_tool_report_print(report, utc_offset_s(report));
    bh_report_free(report);
    return BH_OK;
}

static int print_live(const struct bh_tool_trace *trace, uint32_t top, struct bh_diag *diag)
{
    struct bh_tool_facts facts;
    struct bh_live live;
    struct bh_bytes text = {0};
    if (!trace->source)
        return bh_err_set(diag, BH_E_NO_TRACE, NULL, "Nothing was recorded in this run");
    int error = bh_tool_facts_read(trace->dirfd, &facts, diag);
    if (error < 0)
        return error;
    struct bh_live_query query = {
        .when = facts.limit_crossed ? BH_LIVE_AT_LIMIT : BH_LIVE_AT_PEAK,
        .top = top,
        .growing = true,
        .limit_crossed = facts.limit_crossed,
        .limit_us = facts.crossed_us,
    };
    bh_tool_facts_done(&facts);
    error = bh_live_compute(trace->source, trace->dictionary, NULL, NULL, &query, &live, diag);
    if (error < 0)
        return error;
    bh_live_text(&text, &live, trace->dictionary);
    error = text.failed ? BH_E_NOMEM : BH_OK;
    if (error >= 0)
        (void)fwrite(text.data, 1, text.length, stdout);
    bh_bytes_done(&text);
    bh_live_done(&live);
    return error;
}

static int print_trace(const char *path, uint32_t top, struct bh_diag *diag)
{
    struct bh_tool_trace trace;
    int error = bh_tool_trace_open(path, &trace, diag);
    if (error < 0)
        return error;
    (void)print_words(path, false, NULL); /* a trace without journal has no outcome */
    error = print_live(&trace, top, diag);
    bh_tool_trace_close(&trace);
    return error;
}

int bh_tool_report_words(int argc, char **argv, struct bh_diag *diag)
{
    const char *path;
    bool with_trace = false;
    uint64_t top = 10;
    struct bh_tool_option options[] = {
        {"--with-trace", BH_TOOL_FLAG, &with_trace, 0, "",
         "instead, the Python lines that held memory when the limit was crossed (at the peak, if "
         "it "
         "never was)",
         false},
        {"--top", BH_TOOL_U64, &top, 10000, "N", "of these lines, default 10", false},
    };
    struct bh_tool_usage usage = {"report [--with-trace [--top N]] RUNDIR",
                                  "How the run ended and what was measured, in plain words.\n",
                                  options, 2};
    int error = bh_tool_parse(&usage, argc, argv, &path, diag);
    if (error != 0)
        return error < 0 ? error : 0;
    return with_trace ? print_trace(path, (uint32_t)top, diag) : print_words(path, true, diag);
}
