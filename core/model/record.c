#include "core/model/record.h"

const char *bh_pool_text(int pool)
{
    return pool == BH_POOL_HOST ? "host" : "gpu";
}

const char *bh_record_kind_text(int kind)
{
    switch (kind) {
#define BH_RECORD(name, number, text, sync)                                                        \
    case number:                                                                                   \
        return text;
        BH_RECORDS(BH_RECORD)
#undef BH_RECORD
    default:
        return "unknown";
    }
}

bool bh_record_kind_syncs(int kind)
{
    switch (kind) {
#define BH_RECORD(name, number, text, sync)                                                        \
    case number:                                                                                   \
        return sync;
        BH_RECORDS(BH_RECORD)
#undef BH_RECORD
    default:
        return false;
    }
}

static const char *pick(const char *const *texts, size_t count, int number)
{
    if (number < 0 || (size_t)number >= count || !texts[number])
        return "unknown";
    return texts[number];
}
#define PICK(texts, number) pick(texts, sizeof(texts) / sizeof((texts)[0]), number)

const char *bh_signal_result_text(int result)
{
    static const char *const texts[] = {
        [BH_SIGNAL_DELIVERED] = "delivered",
        [BH_SIGNAL_PROCESS_MISSING] = "process_missing",
        [BH_SIGNAL_PERMISSION_DENIED] = "permission_denied",
        [BH_SIGNAL_FAILED] = "failed",
    };
    return PICK(texts, result);
}

const char *bh_signal_target_text(int target)
{
    static const char *const texts[] = {
        [BH_TARGET_TREE] = "owned_process_group",
        [BH_TARGET_ENDPOINT] = "cooperative_endpoint",
        [BH_TARGET_ROOT] = "root_process",
    };
    return PICK(texts, target);
}

const char *bh_checkpoint_word_text(int word)
{
    static const char *const texts[] = {
        [BH_CKPT_NOT_NEGOTIATED] = "not_negotiated",
        [BH_CKPT_REQUESTED_UNVERIFIED] = "requested_unverified",
        [BH_CKPT_ACKNOWLEDGED] = "acknowledged_unverified_durability",
        [BH_CKPT_VERIFIED_FILE] = "verified_file",
        [BH_CKPT_TIMED_OUT] = "timed_out",
        [BH_CKPT_FAILED] = "failed",
        [BH_CKPT_CANCELLED] = "cancelled",
        [BH_CKPT_READY] = "not_requested",
    };
    return PICK(texts, word);
}

const char *bh_member_event_text(int event)
{
    static const char *const texts[] = {
        [BH_MEMBER_CAME] = "came",
        [BH_MEMBER_WENT] = "went",
        [BH_MEMBER_REPARENTED] = "reparented",
        [BH_MEMBER_LEFT_GROUP] = "left_group",
        [BH_MEMBER_LEFT_SESSION] = "left_session",
        [BH_MEMBER_EXEC] = "exec",
    };
    return PICK(texts, event);
}
