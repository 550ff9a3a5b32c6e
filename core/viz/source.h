/* The event log as a series of whole segments, wherever they lie: events.bhe (here), SQLite rows
 * (server), a buffer (tests). Everything in core/viz reads through this, so that the server and
 * bulkhead-tool run the same code.
 *
 * A source is one consistent cut: the segments it yields are the same in every pass, even while the
 * job's scribe goes on appending. One thread at a time. */
#ifndef BH_VIZ_SOURCE_H
#define BH_VIZ_SOURCE_H

#include "core/wire/evlog.h"

struct bh_trace_source {
    void *context;
    struct bh_evlog_header header; /* run id and anchor of the log */
    /* The next segment is `number` (one past the last: next answers 0). defining_only: next may
     * leave out segments without definitions (struct bh_evlog_segment); it need not. */
    int (*seek)(void *context, uint64_t number, bool defining_only);
    /* 1 and one whole segment, header included, valid until the next call; 0 at the end. */
    int (*next)(void *context, const unsigned char **ret_data, size_t *ret_length);
    /* Number of the last segment whose first event sequence is <= sequence (segments without events
     * do not count); 0 when there is none. */
    int (*locate)(void *context, uint64_t sequence, uint64_t *ret_number);
};

/* events.bhe below a directory. BH_E_NO_TRACE without the file or with an empty one; the index of
 * segments is read here (64 bytes each) and is the cut. */
struct bh_trace_file;
int bh_trace_file_open(int dirfd, const char *name, struct bh_trace_file **ret_file,
                       struct bh_diag *diag);
void bh_trace_file_close(struct bh_trace_file *file); /* NULL allowed */
const struct bh_trace_source *bh_trace_file_source(const struct bh_trace_file *file);
uint64_t bh_trace_file_segments(const struct bh_trace_file *file);
/* Bytes behind the last whole segment: a torn end, or what is being written right now. */
uint64_t bh_trace_file_rest_bytes(const struct bh_trace_file *file);

/* A log in memory: data is the file's content (borrowed). */
int bh_trace_memory_open(const void *data, size_t length, struct bh_trace_file **ret_file,
                         struct bh_diag *diag);

/* Records of a source, one after another over segment borders. */
struct bh_trace_reader {
    const struct bh_trace_source *source; /* borrowed */
    struct bh_evlog_segment segment;      /* the one under way */
    struct bh_evlog_cursor cursor;
    bool open;
};
/* Begins at segment `number`. */
int bh_trace_reader_begin(struct bh_trace_reader *reader, const struct bh_trace_source *source,
                          uint64_t number, bool defining_only);
/* 1 with a record (its string and frames valid until the next call), 0 at the end, else the
 * source's error, BH_E_MALFORMED or BH_E_CHECKSUM. */
int bh_trace_reader_next(struct bh_trace_reader *reader, struct bh_evlog_record *ret_record);

#endif
