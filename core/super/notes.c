#include "core/super/notes.h"

#include <string.h>

#include "core/super/peers.h"

struct bh_record bh_notes_begin(const struct bh_notes *notes, enum bh_record_kind kind)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = kind;
    record.pool = BH_POOL_HOST;
    record.at = notes->os->now(notes->os->self);
    return record;
}

static bool is_watched(enum bh_record_kind kind)
{
    return kind != BH_RECORD_SAMPLE && kind != BH_RECORD_SAMPLES && kind != BH_RECORD_ADVISORY;
}

void bh_notes_put(struct bh_notes *notes, struct bh_record *record)
{
    if (record->kind == BH_RECORD_MEMBER || record->kind == BH_RECORD_ESCAPE) {
        notes->came += record->kind == BH_RECORD_MEMBER && record->member.event == BH_MEMBER_CAME;
        notes->escaped += record->kind == BH_RECORD_ESCAPE;
        if (notes->member_records_left == 0) {
            notes->members_unsaid++;
            return;
        }
        notes->member_records_left--;
    }
    if (notes->queue)
        (void)bh_queue_put(notes->queue, record); /* no room is counted by the queue itself */
    if (record->kind != BH_RECORD_SAMPLE)
        notes->sequence = record->sequence;
    if (bh_record_kind_syncs((int)record->kind))
        notes->wake_wanted = true;
    if (notes->peers && is_watched(record->kind))
        bh_peers_record(notes->peers, record);
    if (notes->tap)
        notes->tap(notes->tap_context, record);
}

void bh_notes_second(struct bh_notes *notes)
{
    notes->member_records_left += BH_NOTES_MEMBER_SECOND;
    if (notes->member_records_left > BH_NOTES_MEMBER_BURST)
        notes->member_records_left = BH_NOTES_MEMBER_BURST;
    bh_notes_flush(notes);
}

void bh_notes_flush(struct bh_notes *notes)
{
    if (!notes->wake_wanted || !notes->queue)
        return;
    notes->wake_wanted = false;
    bh_queue_wake(notes->queue);
}
