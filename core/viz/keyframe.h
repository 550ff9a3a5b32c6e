/* A keyframe: the whole state of a replay as a blob, so that the state at any instant needs one
 * keyframe and a bounded number of events after it.
 *
 * Spacing: a keyframe is due at the first segment end when at least max(BH_KEYFRAME_EVENTS, 2 x
 * live buffers) events passed since the last one. So all keyframes together cost at most about half
 * of the events' own bytes however many buffers live, and replaying up to the next takes time in
 * proportion to what is live, which any answer about it does anyway.
 *
 *     offset 0   u32 magic "BHKF"
 *     offset 4   u16 version, 1
 *     offset 6   u16 header bytes, 128
 *     offset 8   u64 next segment: replay goes on at its start
 *     offset 16  u64 last event sequence
 *     offset 24  i64 running maximum of times, epoch us
 *     offset 32  i64 first time
 *     offset 40  u64 active bytes      \ sums over images that have not ended
 *     offset 48  u64 reserved bytes    /
 *     offset 56  u64 events
 *     offset 64  u64 lost
 *     offset 72  u64 peak bytes
 *     offset 80  u64 peak sequence
 *     offset 88  i64 peak time
 *     offset 96  u32 flags: bit 0 began, bit 1 full
 *     offset 100 u32 images
 *     offset 104 u32 buffers
 *     offset 108 u32 body bytes
 *     offset 112 i64 time of the last event
 *     offset 120 u32 CRC-32C of the body
 *     offset 124 u32 CRC-32C of the first 124 bytes
 *     body       per image: flags (1 known, 2 ended, 4 based); per buffer, by image and address:
 * varints image difference, address difference (to the last of the same image), size, size -
 *                requested, stack, primitive, stream + 1, sequence (signed difference), time
 * (signed difference), flags (1 cached, 2 linked, 4 fresh) */
#ifndef BH_VIZ_KEYFRAME_H
#define BH_VIZ_KEYFRAME_H

#include "core/viz/replay.h"

#define BH_KEYFRAME_EVENTS 65536u

/* The blob itself is opaque to whoever stores it, with these facts beside it. */
struct bh_keyframe_info {
    uint64_t next_segment;
    uint64_t sequence; /* of the last event inside */
    int64_t at_us;     /* its time */
};

/* Whether one is due; `events_then` = replay->events at the last keyframe (0 = none). Not while a
 * baseline is being collected. */
bool bh_keyframe_due(const struct bh_replay *replay, uint64_t events_then);
/* Appends the blob. next_segment: the first segment not applied yet. */
int bh_keyframe_encode(const struct bh_replay *replay, uint64_t next_segment,
                       struct bh_bytes *ret_bytes);
/* Into a replay fresh from bh_replay_init. BH_E_MALFORMED, CHECKSUM, VERSION: start from segment 0
 * instead. */
int bh_keyframe_decode(const void *data, size_t length, struct bh_replay *replay,
                       struct bh_keyframe_info *ret_info);
int bh_keyframe_peek(const void *data, size_t length, struct bh_keyframe_info *ret_info);

/* Where keyframes lie (server: a table; tests: memory). Both answer the newest keyframe whose
 * sequence, or time, is <= the one given: 1 and the blob appended, or 0. */
struct bh_keyframe_store {
    void *context;
    int (*by_sequence)(void *context, uint64_t sequence, struct bh_bytes *ret_blob);
    int (*by_time)(void *context, int64_t at_us, struct bh_bytes *ret_blob);
};

#endif
