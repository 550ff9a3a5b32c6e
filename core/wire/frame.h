/* Control frames on ctl.sock, between a supervisor and its clients (server, tools).
 *
 *     offset 0   u32 magic "BHCF"
 *     offset 4   u8  version, 1
 *     offset 5   u8  type, enum bh_msg
 *     offset 6   u16 flags: REPLY 1, ERROR 2, REQUIRED 4 (an unknown type must be refused, not
 * skipped) offset 8   u32 sequence: a reply carries its request's; an event counts up from 1 offset
 * 12  u32 body bytes, at most BH_FRAME_MAX_BODY offset 16  body: TLV items (tlv.h), tags of enum
 * bh_msg_tag
 *
 * Conversation: the client sends HELLO, gets WELCOME; then requests and replies, one reply per
 * request in order; after WATCH the supervisor sends events as they happen, beginning with one
 * STATUS event. A subscriber whose unsent queue passes BH_FRAME_QUEUE_BYTES is dropped: the
 * supervisor never waits. The peer's uid must be the supervisor's or root. */
#ifndef BH_WIRE_FRAME_H
#define BH_WIRE_FRAME_H

#include "core/wire/tlv.h"

#define BH_FRAME_MAGIC        0x46434842u
#define BH_FRAME_VERSION      1
#define BH_FRAME_HEADER_BYTES 16
#define BH_FRAME_MAX_BODY     65536u
#define BH_FRAME_QUEUE_BYTES  (256u * 1024u)
#define BH_FRAME_REPLY        1u
#define BH_FRAME_ERROR        2u
#define BH_FRAME_REQUIRED     4u

/* BH_MSG(name, number): decades are session, query, command, event. */
#define BH_MSGS(BH_MSG)                                                                            \
    BH_MSG(HELLO, 10)   /* VERSION, PEER text ("bulkheadd 0.1.0") */                               \
    BH_MSG(WELCOME, 11) /* VERSION, RUN_ID, STATUS */                                              \
    BH_MSG(ERROR, 12)   /* reply: ERROR i64, DETAIL text */                                        \
    BH_MSG(BYE, 13)                                                                                \
    BH_MSG(STATUS, 20)     /* reply and event: STATUS bytes (status_file.h, 256) */                \
    BH_MSG(WATCH, 21)      /* reply, then events */                                                \
    BH_MSG(MEMBERS, 22)    /* reply: one MEMBER group each */                                      \
    BH_MSG(STOP, 30)       /* optional GRACE_NS u64, CHECKPOINT u64 0/1; reply STATUS */           \
    BH_MSG(KILL, 31)       /* reply STATUS */                                                      \
    BH_MSG(SIGNAL, 32)     /* SIGNAL u64; reply STATUS; journalled, not a policy event */          \
    BH_MSG(CHECKPOINT, 33) /* reply STATUS, or ERROR with checkpoint_* */                          \
    BH_MSG(LIMITS, 34)     /* LIMIT, WARNING, RECOVERY, EMERGENCY bytes, REVISION expected */      \
    BH_MSG(RECORDING, 35)  /* optional ENABLED u64 0/1, MARK text */                               \
    BH_MSG(EV_SAMPLE, 40)  /* SAMPLE bytes: record payload (kind SAMPLE), at most 4 a second, */   \
                           /* with BYTES_MIN, BYTES_MAX over the span */                           \
    BH_MSG(EV_RECORD, 41)  /* RECORD bytes: one whole journal record as in journal.h */            \
    BH_MSG(EV_DRAIN, 46)   /* EVENTS, LOST u64, EVLOG_BYTES u64: the event log grew */             \
    BH_MSG(EV_FINAL, 47)   /* STATUS; the report is in place (or lost: ERROR i64); then BYE */

#define BH_MSG(name, number) BH_MSG_##name = (number),
enum bh_msg { BH_MSGS(BH_MSG) };
#undef BH_MSG

enum bh_msg_tag {
    BH_TAG_VERSION = 1,
    BH_TAG_PEER = 2,
    BH_TAG_RUN_ID = 3,
    BH_TAG_STATUS = 4,
    BH_TAG_ERROR = 5,
    BH_TAG_DETAIL = 6,
    BH_TAG_GRACE_NS = 7,
    BH_TAG_CHECKPOINT = 8,
    BH_TAG_SIGNAL = 9,
    BH_TAG_LIMIT_BYTES = 10,
    BH_TAG_WARNING_BYTES = 11,
    BH_TAG_RECOVERY_BYTES = 12,
    BH_TAG_EMERGENCY_BYTES = 13,
    BH_TAG_REVISION = 14,
    BH_TAG_ENABLED = 15,
    BH_TAG_MARK = 16,
    BH_TAG_SAMPLE = 17,
    BH_TAG_RECORD = 18,
    BH_TAG_BYTES_MIN = 19,
    BH_TAG_BYTES_MAX = 20,
    BH_TAG_EVENTS = 21,
    BH_TAG_LOST = 22,
    BH_TAG_EVLOG_BYTES = 23,
    BH_TAG_MEMBER = 24, /* group of: */
    BH_TAG_PID = 25,
    BH_TAG_START_TOKEN = 26,
    BH_TAG_BASENAME = 27,
    BH_TAG_BYTES = 28,
    BH_TAG_ESCAPED = 29,
    BH_TAG_PARENT_PID = 30,
};

struct bh_frame {
    enum bh_msg type;
    uint16_t flags;
    uint32_t sequence;
    const unsigned char *body; /* into the reader's buffer */
    size_t body_length;
};

/* Writes header and body into ret_data (capacity bytes); returns the whole length or BH_E_TOO_LONG.
 */
int bh_frame_encode(const struct bh_frame *frame, void *ret_data, size_t capacity);
/* Looks for one whole frame at the start of data. Returns its length and fills ret_frame, 0 when
 * more bytes are needed, BH_E_MALFORMED or BH_E_VERSION when the stream is beyond repair. */
int bh_frame_decode(const void *data, size_t length, struct bh_frame *ret_frame);
const char *bh_msg_text(int type);

#endif
