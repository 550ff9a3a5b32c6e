#include "api/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "api/replay_journal.h"
#include "core/base/scoped.h"
#include "core/wire/journal.h"
#include "core/wire/le.h"

void bh_policy_replay_start(struct bh_replay *replay, const struct bh_policy_config *config,
                            FILE *out)
{
    *replay = (struct bh_replay){.config = config, .out = out, .samples_fds = {-1, -1}};
    bh_policy_start(config, &replay->state);
}

void bh_policy_replay_done(struct bh_replay *replay)
{
    bh_bytes_done(&replay->line);
}

int bh_policy_replay_feed(struct bh_replay *replay, const struct bh_policy_event *event,
                          struct bh_diag *diag)
{
    struct bh_policy_actions actions;
    bh_policy_step(replay->config, &replay->state, event, &actions);
    bh_bytes_clear(&replay->line);
    bh_policy_replay_result_write(&replay->line, replay->config, &replay->state, event, &actions);
    if (replay->line.failed)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "out of memory");
    if (fwrite(replay->line.data, 1, replay->line.length, replay->out) != replay->line.length)
        return bh_err_set(diag, BH_E_IO, NULL, "the output cannot be written");
    return BH_OK;
}

/* ---- one line ---------------------------------------------------------------------------------
 */

static bool is_blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r' && line[i] != '\n')
            return false;
    }
    return true;
}

static int run_line(struct bh_replay *replay, const char *line, size_t length, bool *ret_bad,
                    struct bh_diag *diag)
{
    struct bh_policy_event event;
    if (is_blank(line, length))
        return BH_OK;
    int r = bh_policy_replay_event_parse(line, length, &event, diag);
    if (r < 0) {
        *ret_bad = r != BH_E_NOMEM;
        return r;
    }
    return bh_policy_replay_feed(replay, &event, diag);
}

/* ---- journals ---------------------------------------------------------------------------------
 */

static bool is_journal(const char *line, size_t length)
{
    return length >= 4 && bh_le_get32((const unsigned char *)line) == BH_JOURNAL_MAGIC;
}

/* The timer of a live run would have fired at each deadline before this event. */
static int feed_with_ticks(struct bh_replay *replay, const struct bh_policy_event *event,
                           struct bh_diag *diag)
{
    uint64_t deadline_ns = 0;
    int r = BH_OK;
    while (r == BH_OK && bh_policy_next_deadline(replay->config, &replay->state, &deadline_ns) &&
           deadline_ns < event->at_ns) {
        struct bh_policy_event tick = {.kind = BH_POLICY_EVENT_TICK, .at_ns = deadline_ns};
        if (tick.at_ns < replay->state.last_accepted_ns)
            tick.at_ns = replay->state.last_accepted_ns;
        r = bh_policy_replay_feed(replay, &tick, diag);
    }
    return r == BH_OK ? bh_policy_replay_feed(replay, event, diag) : r;
}

/* What was read of it already and the rest, in a file of our own: the journal reader seeks, and the
 * input may be a pipe. */
static int copy_journal(const char *begin, size_t length, FILE *in, FILE *copy,
                        struct bh_diag *diag)
{
    char chunk[BUFSIZ];
    size_t n = length;
    const char *data = begin;
    do {
        if (fwrite(data, 1, n, copy) != n)
            return bh_err_sys(diag, errno, "copying the journal");
        n = fread(chunk, 1, sizeof chunk, in);
        data = chunk;
    } while (n > 0);
    if (ferror(in) || fflush(copy) != 0)
        return bh_err_sys(diag, errno, "copying the journal");
    return BH_OK;
}

static int run_journal(struct bh_replay *replay, const char *begin, size_t length, FILE *in,
                       struct bh_diag *diag)
{
    BH_SCOPED_FILE FILE *copy = tmpfile();
    struct bh_policy_replay_journal journal = {0};
    if (!copy)
        return bh_err_sys(diag, errno, "making a temporary file");
    int r = copy_journal(begin, length, in, copy, diag);
    if (r < 0)
        return r;
    int loaded = bh_policy_replay_journal_load(fileno(copy), replay->samples_fds, &journal, diag);
    for (size_t i = 0; i < journal.count && r == BH_OK; i++)
        r = feed_with_ticks(replay, &journal.events[i], diag);
    bh_policy_replay_journal_done(&journal);
    return r < 0 ? r : loaded;
}

/* ---- lines ------------------------------------------------------------------------------------
 */

int bh_policy_replay_run(struct bh_replay *replay, FILE *in, uint64_t *ret_line,
                         struct bh_diag *diag)
{
    BH_SCOPED_FREE char *line = NULL;
    size_t capacity = 0;
    uint64_t number = 0;
    int r = BH_OK;
    bool bad = false;
    ssize_t length;
    errno = 0;
    while (r == BH_OK && (length = getline(&line, &capacity, in)) >= 0) {
        number++;
        if (number == 1 && is_journal(line, (size_t)length)) {
            *ret_line = 0;
            return run_journal(replay, line, (size_t)length, in, diag);
        }
        r = run_line(replay, line, (size_t)length, &bad, diag);
    }
    if (r < 0) {
        *ret_line = bad ? number : 0;
        return r;
    }
    if (ferror(in) || !feof(in)) {
        *ret_line = 0;
        return bh_err_sys(diag, errno, "reading the events");
    }
    return BH_OK;
}
