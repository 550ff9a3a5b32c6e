#include "core/super/top_stacks.h"

#include <fcntl.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/viz/live_text.h"
#include "core/wire/journal.h"

#define TOP 3

/* The instant of the first usable sample at or above the limit; false when there was none. */
static bool find_crossing(int run_fd, int64_t *ret_us)
{
    BH_SCOPED_FD int fd = -1;
    struct bh_journal_reader *reader = NULL;
    struct bh_record record;
    bool found = false;
    if (bh_io_open(run_fd, BH_JOURNAL_FILE_NAME, O_RDONLY, &fd, NULL) < 0 ||
        bh_journal_reader_new(fd, &reader, NULL) < 0)
        return false;
    while (!found && bh_journal_reader_next(reader, &record) == 1)
        found = record.kind == BH_RECORD_LIMIT_CROSSED;
    if (found)
        *ret_us = bh_clock_epoch_us(bh_journal_reader_header(reader)->anchor, record.at);
    bh_journal_reader_free(reader);
    return found;
}

static int print(const struct bh_run *run, const struct bh_trace_source *source,
                 struct bh_dictionary *dictionary, int fd)
{
    struct bh_live_query query = {.when = BH_LIVE_AT_PEAK, .top = TOP};
    struct bh_live live;
    struct bh_bytes text = {0};
    query.limit_crossed = find_crossing(run->run_fd, &query.limit_us);
    if (query.limit_crossed)
        query.when = BH_LIVE_AT_LIMIT;
    int result = bh_dictionary_load(dictionary, source);
    if (result == BH_OK)
        result = bh_live_compute(source, dictionary, NULL, NULL, &query, &live, NULL);
    if (result < 0)
        return result;
    bh_live_text(&text, &live, dictionary);
    result = text.failed ? BH_E_NOMEM : bh_io_write_full(fd, text.data, text.length);
    bh_bytes_done(&text);
    bh_live_done(&live);
    return result;
}

int bh_top_stacks_print(const struct bh_run *run, int fd)
{
    struct bh_trace_file *file = NULL;
    struct bh_dictionary *dictionary = NULL;
    int result = bh_trace_file_open(run->run_fd, BH_RUN_EVLOG_NAME, &file, NULL);
    if (result == BH_OK)
        result = bh_dictionary_new(&dictionary);
    if (result == BH_OK)
        result = print(run, bh_trace_file_source(file), dictionary, fd);
    bh_dictionary_free(dictionary);
    bh_trace_file_close(file);
    return result;
}
