/* Foreign events: lists in the served shape that arrive for an external job (another machine, a Mac
 * with MLX's own recorder) become its events.bhe, so that everything behind it (import, timeline,
 * pickle) is the same as for our own. The handler parses the JSON and hands over one event at a
 * time; a request is atomic: bh_foreign_commit makes all of it durable, without it nothing
 * happened.
 *
 * Where the log has been committed to is in `ingest.bin` beside it (32 bytes, replaced by rename
 * and synced after the log); the import reads no further, and opening cuts off what lies behind.
 *
 * One instance per job at a time, any pool thread. Failures: BH_E_SEQUENCE_BACK (detail names the
 * last sequence), BH_E_INVALID_VALUE with diag->field the member of the entry; both leave the
 * request to be dropped (bh_foreign_free, open again). BH_E_NOSPACE, BH_E_IO. */
#ifndef BH_SERVER_FOREIGN_H
#define BH_SERVER_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/wire/evlog.h"

#define BH_FOREIGN_PLACE_NAME "ingest.bin"
#define BH_FOREIGN_MAX_NUMBER ((1ull << 53) - 1) /* of addresses, sizes, times, sequences */

struct bh_foreign;

struct bh_foreign_frame {
    const char *file, *function; /* UTF-8 */
    uint32_t line;
};

/* One entry of core/record/recorder.md, section 5. Borrowed during the call. */
struct bh_foreign_event {
    enum bh_evlog_kind action; /* one of the ten that are served; bh_foreign_action */
    bool has_sequence;
    uint64_t sequence;                             /* absent: the next one */
    int pid;                                       /* 0 = null */
    uint32_t image;                                /* n of the process image, 0 when absent */
    uint64_t address, size_bytes, requested_bytes; /* requested absent: give size */
    int64_t timestamp_us;                          /* since the epoch */
    const char *primitive;                         /* NULL = null */
    int32_t stream;                                /* -1 unknown */
    const struct bh_foreign_frame *frames;         /* outermost first; NULL = null */
    size_t frame_count;
    uint64_t count;    /* Lost */
    const char *label; /* Mark */
    bool cached;       /* Baseline */
};

/* "AllocNew" … to its kind; BH_E_INVALID_VALUE. */
int bh_foreign_action(const char *text, enum bh_evlog_kind *ret_action);

/* dirfd: the external job's run directory (borrowed; must outlive the instance). */
int bh_foreign_open(int dirfd, const char *id, struct bh_foreign **ret_foreign,
                    struct bh_diag *diag);
int bh_foreign_add(struct bh_foreign *foreign, const struct bh_foreign_event *event,
                   struct bh_diag *diag);
/* Durable afterwards. ret_last: the last sequence stored. */
int bh_foreign_commit(struct bh_foreign *foreign, uint64_t *ret_last, struct bh_diag *diag);
/* Cuts off what was not committed. NULL allowed. */
void bh_foreign_free(struct bh_foreign *foreign);
uint64_t bh_foreign_last(const struct bh_foreign *foreign);

/* How far the log is committed, for the import; 0 when nothing is. */
int bh_foreign_place(int dirfd, uint64_t *ret_bytes);

#endif
