/* The drain's rounds: find rings, take slots in order of time, write them to the log, give the
 * slots back once the log has them. See drain.h. */
#include "core/super/drain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/super/drain_parts.h"

#define BUFFER_BYTES_MAX ((uint64_t)1 << 48) /* a counter beyond it is a lie */
/* Slots a process can write per second: measured at 4 million on a fast machine, and half the ring
 * is left for a scribe that is late. */
#define SLOTS_PER_S_MAX 6000000u
#define PAUSE_MIN_NS    BH_NS_PER_MS
#define PAUSE_MAX_NS    (30 * BH_NS_PER_MS) /* a ring that is being made fills in not much more */
/* Without any ring: the decider looks for one with each of its readings, and wakes us. */
#define PAUSE_NO_RING_NS (100 * BH_NS_PER_MS)
/* While nothing comes, half of the ring fills no sooner than a burst of 4 million fills all of it.
 */
#define SLOTS_PER_S_QUIET 2400000u
#define MARK_BYTES        128u
#define SLOT_RECORDS_MAX  4u /* a repair, the event, and this ring's and one more position */

/* ---- life -------------------------------------------------------------------------- */

int bh_drain_new(int rings_fd, int evlog_fd, const char *run_id, struct bh_anchor anchor,
                 uint64_t trace_max_bytes, struct bh_drain **ret_drain, struct bh_diag *diag)
{
    struct bh_drain *drain = calloc(1, sizeof(*drain));
    int rc;

    if (drain == NULL) {
        return bh_err_set(diag, BH_E_NOMEM, NULL, "no memory for draining the recorder");
    }
    drain->rings_fd = rings_fd;
    drain->evlog_fd = evlog_fd;
    drain->recording = true;
    drain->next_image = 1;
    drain->log = (struct bh_drain_log){.next_sequence = 1,
                                       .trace_max_bytes = trace_max_bytes,
                                       .ids = {.next_string = 1, .next_frame = 1, .next_stack = 1}};
    drain->scratch = malloc(BH_DRAIN_SCRATCH_BYTES);
    rc = drain->scratch == NULL ? bh_err_set(diag, BH_E_NOMEM, NULL, "no memory for draining")
                                : bh_drain_resume(drain, diag);
    if (rc == BH_OK) {
        rc = bh_evlog_writer_new(evlog_fd, run_id, anchor, &drain->log.writer, diag);
    }
    if (rc < 0) {
        bh_drain_free(drain);
        return rc;
    }
    bh_evlog_writer_set_lost(drain->log.writer, drain->log.lost);
    *ret_drain = drain;
    return BH_OK;
}

void bh_drain_free(struct bh_drain *drain)
{
    if (drain == NULL) {
        return;
    }
    while (drain->images != NULL) {
        struct bh_drain_image *image = drain->images;

        drain->images = image->next;
        bh_drain_image_free(image);
    }
    bh_drain_ids_done(&drain->log.ids);
    bh_evlog_writer_free(drain->log.writer);
    free(drain->scratch);
    free(drain);
}

/* ---- rounds ------------------------------------------------------------------------ */

/* Brings the image's next slot forward, over holes if its process is gone. */
static bool has_slot(struct bh_drain_image *image, struct bh_ring_slot **ret_slot)
{
    while (!bh_drain_image_peek(image, ret_slot)) {
        if (!image->gone || !bh_drain_image_skip_hole(image)) {
            return false;
        }
    }
    return true;
}

static struct bh_drain_image *list_ready(struct bh_drain *drain)
{
    struct bh_drain_image *image, *ready = NULL;

    for (image = drain->images; image != NULL; image = image->next) {
        if (!image->ended && image->reader.fd >= 0) {
            image->next_ready = ready;
            ready = image;
        }
    }
    return ready;
}

/* The image whose next slot is the oldest, NULL when none has one. Images that have none left are
 * taken off the list. */
static struct bh_drain_image *oldest(struct bh_drain_image **ready)
{
    struct bh_drain_image *best = NULL;
    uint64_t best_ns = 0;

    while (*ready != NULL) {
        struct bh_drain_image *image = *ready;
        struct bh_ring_slot *slot;

        if (!has_slot(image, &slot)) {
            *ready = image->next_ready;
            continue;
        }
        if (best == NULL || slot->time_ns < best_ns) {
            best = image;
            best_ns = slot->time_ns;
        }
        ready = &image->next_ready;
    }
    return best;
}

/* Writes down how far into each ring the log reaches. It must stand in the segment that holds the
 * last of those slots, or a death before the ring is told makes them appear twice. */
static void tell_taken(struct bh_drain *drain)
{
    struct bh_drain_image *image;

    for (image = drain->images; image != NULL; image = image->next) {
        struct bh_evlog_record record = {.kind = BH_EVLOG_TAKEN, .image = image->id, .stream = -1};

        if (image->ended || image->id == 0 || image->reader.fd < 0 ||
            image->told == bh_drain_image_taken(image)) {
            continue;
        }
        image->moved = false;
        record.count = image->told = bh_drain_image_taken(image);
        (void)bh_drain_log_add(&drain->log, &record);
    }
    drain->moved = 0;
}

static void flush(struct bh_drain *drain)
{
    int rc;

    tell_taken(drain);
    if (drain->log.error < 0 || !drain->log.dirty) {
        return;
    }
    bh_evlog_writer_set_lost(drain->log.writer, drain->log.lost);
    rc = bh_evlog_writer_flush(drain->log.writer);
    drain->log.dirty = false;
    if (rc < 0) {
        bh_drain_log_failed(&drain->log, rc);
    }
}

static unsigned take_slots(struct bh_drain *drain)
{
    struct bh_mono now = bh_clock_mono();
    struct bh_drain_image *ready = list_ready(drain);
    struct bh_drain_image *image;
    unsigned taken = 0;

    while (taken < BH_DRAIN_STEP_SLOTS && (image = oldest(&ready)) != NULL) {
        int rc;

        if (!bh_evlog_writer_has_room(drain->log.writer, drain->moved + SLOT_RECORDS_MAX)) {
            flush(drain);
        }
        drain->moved += !image->moved;
        image->moved = true;
        rc = bh_drain_image_take(image, &drain->log, now);
        if (rc < 0) {
            image->batch_at = image->batch_count = 0;
            bh_drain_give_up(drain, image, bh_err_title(rc));
        }
        taken++;
    }
    return taken;
}

static void end_gone(struct bh_drain *drain)
{
    struct bh_mono now = bh_clock_mono();
    struct bh_drain_image *image;

    for (image = drain->images; image != NULL; image = image->next) {
        bool empty =
            image->corrupt || image->reader.fd < 0 || image->id == 0 ||
            (image->batch_at == image->batch_count && image->reader.next == image->header.head);

        if (!image->ended && image->gone && empty) {
            drain->stacks_lost_ended += image->header.stacks_lost;
            (void)bh_drain_image_end(image, &drain->log, now);
        }
    }
}

static int round_of(struct bh_drain *drain, bool all_gone)
{
    struct bh_drain_image *image;
    unsigned taken;

    bh_drain_look_for_rings(drain);
    for (image = drain->images; image != NULL; image = image->next) {
        bh_drain_refresh(drain, image, all_gone);
    }
    taken = take_slots(drain);
    tell_taken(drain); /* before the ends, which may begin a new segment */
    end_gone(drain);
    flush(drain);
    bh_drain_release(drain);
    return drain->log.error < 0 ? drain->log.error : (int)taken;
}

int bh_drain_step(struct bh_drain *drain)
{
    return round_of(drain, false);
}

static bool all_ended(const struct bh_drain *drain)
{
    const struct bh_drain_image *image;

    for (image = drain->images; image != NULL; image = image->next) {
        if (!image->ended) {
            return false;
        }
    }
    return true;
}

int bh_drain_finish(struct bh_drain *drain)
{
    /* A ring holds at most 2^24 slots, a round takes 2^16: this many rounds are enough for any
     * honest set of rings, and a set that is not is cut off. */
    unsigned rounds = 256 + 256 * (unsigned)drain->image_count;
    int rc;

    do {
        rc = round_of(drain, true);
    } while (!all_ended(drain) && --rounds > 0);
    if (drain->log.full && drain->log.error == BH_OK && drain->log.dropped > 0) {
        struct bh_evlog_record full = {
            .kind = BH_EVLOG_FULL, .at = bh_clock_mono(), .count = drain->log.dropped};

        rc = bh_evlog_writer_add(drain->log.writer, &full);
        rc = rc < 0 ? rc : bh_evlog_writer_flush(drain->log.writer);
    }
    return rc < 0 ? rc : BH_OK;
}

bool bh_drain_misses_mlx(const struct bh_drain *drain)
{
    return !drain->attached && drain->reason[0] == '\0' && !drain->mlx_seen;
}

void bh_drain_saw_mlx(struct bh_drain *drain)
{
    drain->mlx_seen = true;
}

/* ---- answers ----------------------------------------------------------------------- */

static uint64_t plausible(uint64_t bytes)
{
    return bytes > BUFFER_BYTES_MAX ? 0 : bytes;
}

static enum bh_recorder_state state_of(const struct bh_drain *drain, bool lost)
{
    if (!drain->attached) {
        return BH_RECORDER_ABSENT;
    }
    if (!drain->recording) {
        return BH_RECORDER_OFF;
    }
    /* one process recorded and another not is a loss as well */
    return lost || drain->lossy || drain->refused ? BH_RECORDER_LOSSY : BH_RECORDER_ATTACHED;
}

void bh_drain_stats(const struct bh_drain *drain, struct bh_record_recorder *ret_stats)
{
    const struct bh_drain_image *image;
    struct bh_record_recorder stats = {.events = drain->log.events,
                                       .lost = drain->log.lost,
                                       .holes = drain->log.holes,
                                       .stacks_lost = drain->stacks_lost_ended,
                                       .ring_bytes = bh_drain_ring_bytes(drain)};

    for (image = drain->images; image != NULL; image = image->next) {
        if (!image->ended && !image->corrupt && !image->unmapped && image->id != 0) {
            stats.active.value += plausible(image->header.active_bytes);
            stats.reserved.value +=
                plausible(image->header.active_bytes) + plausible(image->header.cache_bytes);
            stats.stacks_lost += image->header.stacks_lost;
        }
    }
    if (drain->attached) {
        stats.active.status = BH_VALUE_AVAILABLE;
        stats.reserved.status = BH_VALUE_AVAILABLE;
    }
    stats.state = state_of(drain, stats.lost != 0 || stats.stacks_lost != 0);
    memcpy(stats.reason, drain->reason, sizeof(stats.reason));
    if (!drain->attached && drain->reason[0] == '\0') {
        (void)snprintf(stats.reason, sizeof(stats.reason), "%s",
                       drain->mlx_seen ? "hooks_not_reached" : "no_mlx");
    }
    memcpy(stats.mlx_version, drain->mlx_version, sizeof(stats.mlx_version));
    *ret_stats = stats;
}

uint64_t bh_drain_ring_bytes(const struct bh_drain *drain)
{
    const struct bh_drain_image *image;
    uint64_t bytes = 0;

    for (image = drain->images; image != NULL; image = image->next) {
        if (image->reader.fd >= 0 && !image->ended && !image->gone && !image->unmapped &&
            image->reader.facts.slot_count != 0) {
            bytes += image->reader.facts.file_bytes;
        }
    }
    return bytes;
}

uint64_t bh_drain_pause_ns(const struct bh_drain *drain, bool quiet)
{
    const struct bh_drain_image *image;
    uint64_t rate = quiet ? SLOTS_PER_S_QUIET : SLOTS_PER_S_MAX;
    uint64_t pause_ns = drain->images == NULL ? PAUSE_NO_RING_NS : PAUSE_MAX_NS;

    for (image = drain->images; image != NULL; image = image->next) {
        uint64_t half = image->reader.facts.slot_count / 2 * BH_NS_PER_S / rate;

        if (!image->ended && !image->corrupt && image->id != 0 && half < pause_ns) {
            pause_ns = half > PAUSE_MIN_NS ? half : PAUSE_MIN_NS;
        }
    }
    return pause_ns;
}

uint64_t bh_drain_evlog_bytes(const struct bh_drain *drain)
{
    return bh_evlog_writer_bytes(drain->log.writer);
}

void bh_drain_set_recording(struct bh_drain *drain, bool enabled)
{
    struct bh_drain_image *image;

    drain->recording = enabled;
    for (image = drain->images; image != NULL; image = image->next) {
        if (image->reader.fd >= 0 && !image->ended && image->control_on != enabled &&
            bh_ring_control(&image->reader, enabled) == BH_OK) {
            image->control_on = enabled;
        }
    }
}

int bh_drain_mark(struct bh_drain *drain, const char *label, struct bh_mono at)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_MARK, .at = at, .stream = -1};
    size_t length = strnlen(label, MARK_BYTES + 1);
    int rc;

    if (length > MARK_BYTES) {
        for (length = MARK_BYTES; length > 0 && ((unsigned char)label[length] & 0xc0) == 0x80;) {
            length--;
        }
    }
    if (!bh_text_is_utf8(label, length)) {
        return BH_E_INVALID_VALUE;
    }
    rc = bh_drain_string(&drain->log, label, length, &record.text);
    rc = rc < 0 ? rc : bh_drain_log_add(&drain->log, &record);
    return rc < 0 ? rc : drain->log.error;
}
