/* The one sentence for people about how a run ended: fact, cause, what to do. */
#include "core/model/outcome.h"

#include <stdio.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/text.h"

#define CLOCK_SIZE 32

struct words {
    char limit[24], emergency[24], at[CLOCK_SIZE], later[40], wall[40], signal[16];
};

/* "hh:mm:ss" of the local day; "a time unknown" when it is. */
static void local_time(struct bh_observed epoch_us, int utc_offset_s, char *ret_text)
{
    if (epoch_us.status != BH_VALUE_AVAILABLE || epoch_us.value > (uint64_t)INT64_MAX / 2) {
        (void)snprintf(ret_text, CLOCK_SIZE, "an unknown time");
        return;
    }
    int64_t seconds = (int64_t)(epoch_us.value / 1000000) + utc_offset_s;
    int64_t day = ((seconds % 86400) + 86400) % 86400;
    (void)snprintf(ret_text, CLOCK_SIZE, "%02d:%02d:%02d", (int)(day / 3600), (int)(day / 60 % 60),
                   (int)(day % 60));
}

/* To the nearest third figure: a band is a tenth off the limit, rounded down to a byte, and "6.59
 * GiB" for 6.6 GiB less 0.4 bytes would be pedantry. */
static void band_text(uint64_t bytes, char *ret_text, size_t size)
{
    unsigned unit = 0;
    while (unit < 6 && (bytes >> (10 * (unit + 1))) != 0)
        unit++;
    uint64_t scale = UINT64_C(1) << (10 * unit), whole = bytes / scale;
    uint64_t half = unit == 0 ? 0 : scale / (whole >= 100 ? 2 : whole >= 10 ? 20 : 200);
    (void)bh_text_format_bytes(bytes + half, ret_text, size);
}

/* "0.6 s", "3.8 s": seconds with a tenth below a minute, for how long a stop took. */
static void later_text(uint64_t ns, char *ret_text, size_t size)
{
    if (ns >= BH_NS_PER_MS * 100 && ns < BH_NS_PER_S)
        (void)snprintf(ret_text, size, "0.%d s", (int)(ns / (BH_NS_PER_MS * 100)));
    else
        (void)bh_text_format_duration(ns, ret_text, size);
}

/* "2 h" rather than "2 h 0 min": a wall time is a round number that the user gave. */
static void round_duration(uint64_t ns, char *ret_text, size_t size)
{
    uint64_t s = ns / BH_NS_PER_S;
    bool whole = ns % BH_NS_PER_S == 0 && s > 0;
    if (whole && s % 3600 == 0)
        (void)snprintf(ret_text, size, "%llu h", (unsigned long long)(s / 3600));
    else if (whole && s < 3600 && s % 60 == 0)
        (void)snprintf(ret_text, size, "%llu min", (unsigned long long)(s / 60));
    else if (whole && s < 60)
        (void)snprintf(ret_text, size, "%llu s", (unsigned long long)s);
    else
        (void)bh_text_format_duration(ns, ret_text, size);
}

static const char *checkpoint_clause(enum bh_checkpoint_word word)
{
    switch (word) {
    case BH_CKPT_VERIFIED_FILE:
        return "saved a checkpoint that is verified on disk, and";
    case BH_CKPT_ACKNOWLEDGED:
        return "the job says it saved a checkpoint, and it";
    case BH_CKPT_TIMED_OUT:
        return "the checkpoint was not done in time, and it";
    case BH_CKPT_FAILED:
        return "the checkpoint failed, and it";
    case BH_CKPT_CANCELLED:
        return "the job cancelled the checkpoint, and it";
    case BH_CKPT_REQUESTED_UNVERIFIED:
        return "a checkpoint was asked for, and it";
    case BH_CKPT_NOT_NEGOTIATED:
    case BH_CKPT_READY:
        break;
    }
    return "no checkpoint was taken, and it";
}

static void limit_sentence(const struct bh_outcome_story *story, const struct words *words,
                           char *ret_text, size_t size)
{
    const char *end = story->killed ? "was killed" : "exited";
    const char *clause = checkpoint_clause(story->checkpoint);
    if (story->later_ns.status == BH_VALUE_AVAILABLE)
        (void)snprintf(ret_text, size, "It reached its %s limit at %s, %s %s %s later.",
                       words->limit, words->at, clause, end, words->later);
    else
        (void)snprintf(ret_text, size, "It reached its %s limit at %s, %s %s.", words->limit,
                       words->at, clause, end);
}

static void oom_sentence(const struct bh_outcome_story *story, char *ret_text, size_t size)
{
    if (story->mode == BH_MODE_ENFORCE)
        (void)snprintf(ret_text, size,
                       "The kernel ran out of memory and killed it, below its own limit. Lower "
                       "the limit.");
    else
        (void)snprintf(ret_text, size,
                       "The kernel ran out of memory and killed it. Give it a limit.");
}

/* Why not all of it could be seen, where that has a name: NULL else. */
static const char *unseen_reason(int error)
{
    switch (error) {
    case BH_E_TOO_MANY_PROCESSES:
        return "It had more than 4096 processes, more than can be watched without a control group "
               "of its own";
    case BH_E_NOSPACE:
        return "There were not enough descriptors to watch all of its processes (see ulimit -Hn)";
    case BH_E_NOMEM:
        return "There was not enough memory to watch all of its processes";
    default:
        return NULL;
    }
}

static void unreadable_sentence(const struct bh_outcome_story *story, char *ret_text, size_t size)
{
    static const char *const numbers[] = {"",           "once",       "twice",     "three times",
                                          "four times", "five times", "six times", "seven times"};
    const char *end = story->mode == BH_MODE_OBSERVE ? "no longer watched" : "stopped";
    const char *reason = unseen_reason(story->error);
    char count[24];
    if (reason) {
        (void)snprintf(ret_text, size, "%s, so it was %s.", reason, end);
        return;
    }
    if (story->max_unusable > 0 && story->max_unusable < sizeof numbers / sizeof numbers[0])
        (void)snprintf(count, sizeof count, "%s", numbers[story->max_unusable]);
    else
        (void)snprintf(count, sizeof count, "%u times", story->max_unusable);
    (void)snprintf(ret_text, size, "Its memory could not be read %s%s, so it was %s.", count,
                   story->max_unusable > 1 ? " in a row" : "", end);
}

static void lost_sentence(const struct bh_outcome_story *story, const struct words *words,
                          char *ret_text, size_t size)
{
    if (story->reached_epoch_us.status == BH_VALUE_AVAILABLE)
        (void)snprintf(ret_text, size, "Its supervisor was lost; last sample at %s.", words->at);
    else
        (void)snprintf(ret_text, size, "Its supervisor was lost before the first sample.");
}

static void cause_sentence(const struct bh_outcome_story *story, const struct words *words,
                           char *ret_text, size_t size)
{
    switch (story->cause) {
    case BH_CAUSE_LIMIT_EXCEEDED:
        limit_sentence(story, words, ret_text, size);
        return;
    case BH_CAUSE_EMERGENCY:
        (void)snprintf(ret_text, size, "It passed %s at %s and was %s at once.", words->emergency,
                       words->at, story->emergency_term ? "stopped" : "killed");
        return;
    case BH_CAUSE_WALL_TIME:
        (void)snprintf(
            ret_text, size, "Its %s %s over.", words->wall,
            strncmp(words->wall, "1 ", 2) == 0 && !strchr(words->wall + 2, ' ') ? "was" : "were");
        return;
    case BH_CAUSE_USER_STOP:
        (void)snprintf(ret_text, size, "You stopped it.");
        return;
    case BH_CAUSE_OWNER_EXIT:
        (void)snprintf(ret_text, size, "The process that asked for it ended.");
        return;
    case BH_CAUSE_KERNEL_OOM:
        oom_sentence(story, ret_text, size);
        return;
    case BH_CAUSE_KILLED_BY_OTHER:
        (void)snprintf(ret_text, size, "%s came from outside; Bulkhead sent none.", words->signal);
        return;
    case BH_CAUSE_CRASH_SIGNAL:
        (void)snprintf(ret_text, size, "Crashed with %s. See the end of stderr.", words->signal);
        return;
    case BH_CAUSE_CHILD_ERROR:
        (void)snprintf(ret_text, size, "Ended by itself with exit code %d. See the end of stderr.",
                       story->exit_code);
        return;
    case BH_CAUSE_OBSERVATION_FAILED:
        unreadable_sentence(story, ret_text, size);
        return;
    case BH_CAUSE_HOST_REBOOT:
        (void)snprintf(ret_text, size, "The machine restarted.");
        return;
    case BH_CAUSE_SUPERVISOR_LOST:
        lost_sentence(story, words, ret_text, size);
        return;
    case BH_CAUSE_COMPLETED:
        (void)snprintf(ret_text, size, "Finished normally.");
        return;
    case BH_CAUSE_UNKNOWN:
        break;
    }
    (void)snprintf(ret_text, size, "The cause is unknown.");
}

const char *bh_outcome_sentence(const struct bh_outcome_story *story, int utc_offset_s,
                                char *ret_text, size_t size)
{
    struct words words;
    band_text(story->limit_bytes, words.limit, sizeof words.limit);
    band_text(story->emergency_bytes, words.emergency, sizeof words.emergency);
    local_time(story->reached_epoch_us, utc_offset_s, words.at);
    later_text(story->later_ns.value, words.later, sizeof words.later);
    round_duration(story->wall_time_ns, words.wall, sizeof words.wall);
    char number[16];
    (void)snprintf(words.signal, sizeof words.signal, "%s",
                   bh_text_signal_name(story->signal, number, sizeof number));
    switch (story->kind) {
    case BH_OUTCOME_LAUNCH_NOT_FOUND:
    case BH_OUTCOME_LAUNCH_NOT_EXECUTABLE:
    case BH_OUTCOME_INVALID_CONFIGURATION:
        (void)snprintf(ret_text, size, "%s.", bh_err_title(story->error));
        return ret_text;
    case BH_OUTCOME_UNKILLABLE:
        (void)snprintf(ret_text, size, "SIGKILL was sent, and %u of its processes %s still there.",
                       story->survivors, story->survivors == 1 ? "is" : "are");
        return ret_text;
    case BH_OUTCOME_SUPERVISOR_FAILURE:
        if (story->cause == BH_CAUSE_UNKNOWN && unseen_reason(story->error)) {
            unreadable_sentence(story, ret_text, size);
            return ret_text;
        }
        if (story->cause == BH_CAUSE_UNKNOWN && story->error != 0) {
            (void)snprintf(ret_text, size, "%s.", bh_err_title(story->error));
            return ret_text;
        }
        break;
    case BH_OUTCOME_NONE:
    case BH_OUTCOME_CHILD_EXITED:
    case BH_OUTCOME_CHILD_SIGNALED:
    case BH_OUTCOME_POLICY_INTERVENTION:
    case BH_OUTCOME_PARTIAL_ARTIFACT_FAILURE:
    case BH_OUTCOME_SUPERVISOR_LOST:
        break;
    }
    cause_sentence(story, &words, ret_text, size);
    return ret_text;
}
