/* Layout of a status image:
 *
 *     offset 0    u32 magic "BHST", u16 version 1, u16 bytes 256
 *     offset 8    20 bytes run id
 *     offset 28   u8 job state, u8 policy state, u8 mode, u8 boundary
 *     offset 32   u32 supervisor pid, u32 root pid
 *     offset 40   u64 root start token
 *     offset 48   u32 members, u32 limits revision
 *     offset 56   u64 at, u64 started, u64 sequence
 *     offset 80   u64 charge, u64 peak charge
 *     offset 96   u64 limit, u64 warning, u64 recovery, u64 emergency
 *     offset 128  u64 active, u64 reserved, u64 events, u64 lost
 *     offset 160  u8 status of charge, peak charge, active, reserved
 *     offset 164  u8 recorder state, u8 checkpoint word, u8 outcome kind, u8 cause
 *     offset 168  i32 exit code, i32 signal
 *     offset 176  reserved, 0
 *     offset 252  u32 CRC-32C of the first 252 bytes
 */
#include "core/wire/status_file.h"

#include <string.h>

#include "core/base/crc32c.h"
#include "core/base/text.h"
#include "core/model/policy.h"
#include "core/wire/le.h"

#define VERSION  1
#define CHECK_AT 252

void bh_status_file_encode(const struct bh_status *status,
                           unsigned char ret_bytes[static BH_STATUS_FILE_BYTES])
{
    unsigned char *at = ret_bytes;
    memset(at, 0, BH_STATUS_FILE_BYTES);
    bh_le_put32(at, BH_STATUS_FILE_MAGIC);
    bh_le_put16(at + 4, VERSION);
    bh_le_put16(at + 6, BH_STATUS_FILE_BYTES);
    memcpy(at + 8, status->run_id, BH_JOB_ID_SIZE - 1);
    at[28] = (unsigned char)status->state;
    at[29] = status->policy_state;
    at[30] = (unsigned char)status->mode;
    at[31] = (unsigned char)status->boundary;
    bh_le_put32(at + 32, (uint32_t)status->supervisor_pid);
    bh_le_put32(at + 36, (uint32_t)status->root_pid);
    bh_le_put64(at + 40, status->root_start_token);
    bh_le_put32(at + 48, status->members);
    bh_le_put32(at + 52, status->limits_revision);
    bh_le_put64(at + 56, status->at.ns);
    bh_le_put64(at + 64, status->started.ns);
    bh_le_put64(at + 72, status->sequence);
    bh_le_put64(at + 80, status->charge.value);
    bh_le_put64(at + 88, status->peak_charge.value);
    bh_le_put64(at + 96, status->limit_bytes);
    bh_le_put64(at + 104, status->warning_bytes);
    bh_le_put64(at + 112, status->recovery_bytes);
    bh_le_put64(at + 120, status->emergency_bytes);
    bh_le_put64(at + 128, status->active.value);
    bh_le_put64(at + 136, status->reserved.value);
    bh_le_put64(at + 144, status->events);
    bh_le_put64(at + 152, status->lost);
    at[160] = (unsigned char)status->charge.status;
    at[161] = (unsigned char)status->peak_charge.status;
    at[162] = (unsigned char)status->active.status;
    at[163] = (unsigned char)status->reserved.status;
    at[164] = (unsigned char)status->recorder;
    at[165] = (unsigned char)status->checkpoint;
    at[166] = (unsigned char)status->outcome;
    at[167] = (unsigned char)status->cause;
    bh_le_put32(at + 168, (uint32_t)status->exit_code);
    bh_le_put32(at + 172, (uint32_t)status->signal);
    bh_le_put32(at + CHECK_AT, bh_crc32c(0, at, CHECK_AT));
}

static struct bh_observed observed(const unsigned char *at, size_t value_at, size_t status_at)
{
    return (struct bh_observed){(enum bh_value_status)at[status_at], bh_le_get64(at + value_at)};
}

/* Numbers that become enums: nothing outside their lists gets in. */
static bool enums_fit(const unsigned char *at)
{
    return at[28] <= BH_JOB_FAILED_TO_START && at[29] <= BH_POLICY_STATE_SUPERVISOR_ERROR &&
           at[30] <= BH_MODE_OBSERVE && at[31] <= BH_BOUNDARY_KERNEL && at[160] <= BH_VALUE_ERROR &&
           at[161] <= BH_VALUE_ERROR && at[162] <= BH_VALUE_ERROR && at[163] <= BH_VALUE_ERROR &&
           at[164] <= BH_RECORDER_LOSSY && at[165] <= BH_CKPT_READY &&
           at[166] <= BH_OUTCOME_UNKILLABLE && at[167] <= BH_CAUSE_SUPERVISOR_LOST;
}

static int check(const unsigned char *at, size_t length)
{
    if (length < BH_STATUS_FILE_BYTES)
        return BH_E_TRUNCATED;
    if (bh_le_get32(at) != BH_STATUS_FILE_MAGIC)
        return BH_E_MALFORMED;
    if (bh_le_get16(at + 4) != VERSION)
        return BH_E_VERSION;
    if (bh_le_get32(at + CHECK_AT) != bh_crc32c(0, at, CHECK_AT))
        return BH_E_CHECKSUM;
    return bh_le_get16(at + 6) == BH_STATUS_FILE_BYTES && enums_fit(at) ? BH_OK : BH_E_MALFORMED;
}

int bh_status_file_decode(const void *data, size_t length, struct bh_status *ret_status)
{
    const unsigned char *at = data;
    int result = check(at, length);
    if (result < 0)
        return result;
    struct bh_status status = {
        .state = (enum bh_job_state)at[28],
        .policy_state = at[29],
        .mode = (enum bh_mode)at[30],
        .boundary = (enum bh_boundary)at[31],
        .supervisor_pid = (int)bh_le_get32(at + 32),
        .root_pid = (int)bh_le_get32(at + 36),
        .root_start_token = bh_le_get64(at + 40),
        .members = bh_le_get32(at + 48),
        .limits_revision = bh_le_get32(at + 52),
        .at = {bh_le_get64(at + 56)},
        .started = {bh_le_get64(at + 64)},
        .sequence = bh_le_get64(at + 72),
        .charge = observed(at, 80, 160),
        .peak_charge = observed(at, 88, 161),
        .limit_bytes = bh_le_get64(at + 96),
        .warning_bytes = bh_le_get64(at + 104),
        .recovery_bytes = bh_le_get64(at + 112),
        .emergency_bytes = bh_le_get64(at + 120),
        .active = observed(at, 128, 162),
        .reserved = observed(at, 136, 163),
        .events = bh_le_get64(at + 144),
        .lost = bh_le_get64(at + 152),
        .recorder = (enum bh_recorder_state)at[164],
        .checkpoint = (enum bh_checkpoint_word)at[165],
        .outcome = (enum bh_outcome_kind)at[166],
        .cause = (enum bh_cause)at[167],
        .exit_code = (int)bh_le_get32(at + 168),
        .signal = (int)bh_le_get32(at + 172),
    };
    memcpy(status.run_id, at + 8, BH_JOB_ID_SIZE - 1);
    if (!bh_text_is_job_id(status.run_id))
        return BH_E_MALFORMED;
    *ret_status = status;
    return BH_OK;
}
