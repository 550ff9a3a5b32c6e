#include "api/replay_journal.h"

#include <stdlib.h>
#include <string.h>

#include "api/replay_track.h"
#include "core/wire/journal.h"

void bh_policy_replay_journal_done(struct bh_policy_replay_journal *journal)
{
    free(journal->events);
    *journal = (struct bh_policy_replay_journal){0};
}

static int compare(const void *left, const void *right)
{
    const struct bh_track_point *a = left;
    const struct bh_track_point *b = right;
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns ? -1 : 1;
    bool a_exit = a->origin == BH_TRACK_EXIT;
    bool b_exit = b->origin == BH_TRACK_EXIT;
    if (a_exit != b_exit)
        return a_exit ? 1 : -1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static struct bh_policy_event event_of(const struct bh_track *track,
                                       const struct bh_track_point *point)
{
    struct bh_policy_event event = {.at_ns = bh_track_policy_time(track, point->at_ns)};
    uint64_t bytes = point->bytes < BH_POLICY_MAX ? point->bytes : BH_POLICY_MAX;
    if (point->origin == BH_TRACK_EXIT) {
        event.kind = BH_POLICY_EVENT_PROCESS_EXITED;
        event.exited.has_final_bytes = point->has_bytes;
        event.exited.final_bytes = bytes;
        return event;
    }
    event.kind = BH_POLICY_EVENT_SAMPLE;
    event.sample.captured_at_ns = bh_track_policy_time(track, point->captured_at_ns);
    event.sample.window_ns = point->window_ns < BH_POLICY_MAX ? point->window_ns : BH_POLICY_MAX;
    event.sample.has_bytes = point->has_bytes;
    event.sample.bytes = bytes;
    return event;
}

static int convert(struct bh_track *track, struct bh_policy_replay_journal *ret_journal,
                   struct bh_diag *diag)
{
    size_t count;
    bh_track_settle(track);
    struct bh_track_point *points = bh_track_points(track, &count);
    struct bh_policy_event *events = calloc(count ? count : 1, sizeof *events);
    if (!events || track->points.failed || track->gaps.failed) {
        free(events);
        return bh_err_set(diag, BH_E_NOMEM, NULL, "out of memory");
    }
    if (count)
        qsort(points, count, sizeof *points, compare);
    *ret_journal = (struct bh_policy_replay_journal){.events = events};
    for (size_t i = 0; i < count; i++) {
        if (!points[i].dropped)
            events[ret_journal->count++] = event_of(track, &points[i]);
    }
    return BH_OK;
}

static void add_samples_file(int fd, const char *run_id, struct bh_track *track)
{
    struct bh_journal_reader *reader = NULL;
    struct bh_record record;
    if (fd < 0 || bh_journal_reader_new(fd, &reader, NULL) < 0)
        return;
    if (strcmp(bh_journal_reader_header(reader)->run_id, run_id) == 0) {
        while (bh_journal_reader_next(reader, &record) > 0) {
            if (record.kind == BH_RECORD_SAMPLE)
                bh_track_add(track, &record);
        }
    }
    bh_journal_reader_free(reader);
}

/* The whole journal; ret_run tells one of a run from a samples file. */
static int add_journal(struct bh_journal_reader *reader, struct bh_track *track, bool *ret_run)
{
    struct bh_record record;
    int r;
    while ((r = bh_journal_reader_next(reader, &record)) > 0) {
        *ret_run = *ret_run || record.kind != BH_RECORD_SAMPLE;
        bh_track_add(track, &record);
    }
    return r;
}

int bh_policy_replay_journal_load(int fd, const int *samples_fds,
                                  struct bh_policy_replay_journal *ret_journal,
                                  struct bh_diag *diag)
{
    struct bh_journal_reader *reader = NULL;
    struct bh_track track = {0};
    bool is_run = false;
    int r = bh_journal_reader_new(fd, &reader, diag);
    if (r < 0)
        return r;
    const struct bh_journal_header *header = bh_journal_reader_header(reader);
    track.zero_ns = header->anchor.mono.ns;
    int broken = add_journal(reader, &track, &is_run);
    for (int i = 0; i < BH_REPLAY_SAMPLES_FILES && samples_fds && is_run; i++)
        add_samples_file(samples_fds[i], header->run_id, &track);
    r = convert(&track, ret_journal, diag);
    if (r == BH_OK && broken < 0)
        r = bh_err_set(diag, broken, NULL, "the journal is corrupt after %llu bytes",
                       (unsigned long long)bh_journal_reader_offset(reader));
    bh_track_done(&track);
    bh_journal_reader_free(reader);
    return r;
}
