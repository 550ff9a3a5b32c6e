#include "core/super/transitions.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/model/policy.h"

static int format_bytes(const struct bh_observed *value, char *text, size_t size)
{
    return value->status == BH_VALUE_AVAILABLE
               ? snprintf(text, size, "%llu", (unsigned long long)value->value)
               : snprintf(text, size, "null");
}

static int format_transition(const struct bh_record *record, char *line, size_t size)
{
    char bytes[24];
    (void)format_bytes(&record->transition.bytes, bytes, sizeof bytes);
    return snprintf(line, size,
                    "{\"type\":\"transition\",\"at_ns\":%llu,\"from\":\"%s\",\"to\":\"%s\","
                    "\"charge_bytes\":%s,\"reason\":\"%s\"}\n",
                    (unsigned long long)record->at.ns,
                    bh_policy_state_name((enum bh_policy_state_id)record->transition.from),
                    bh_policy_state_name((enum bh_policy_state_id)record->transition.to), bytes,
                    record->transition.reason);
}

static int format_signal(const struct bh_record *record, char *line, size_t size)
{
    char name[16];
    return snprintf(line, size,
                    "{\"type\":\"signal\",\"at_ns\":%llu,\"signal\":\"%s\",\"result\":\"%s\","
                    "\"reached\":%u,\"reason\":\"%s\"}\n",
                    (unsigned long long)record->at.ns,
                    bh_text_signal_name(record->signal.signal, name, sizeof name),
                    bh_signal_result_text((int)record->signal.result), record->signal.reached,
                    record->signal.reason);
}

static int format_outcome(const struct bh_record *record, char *line, size_t size)
{
    char peak[24];
    (void)format_bytes(&record->outcome.peak_bytes, peak, sizeof peak);
    return snprintf(line, size,
                    "{\"type\":\"outcome\",\"at_ns\":%llu,\"kind\":\"%s\",\"cause\":\"%s\","
                    "\"peak_bytes\":%s,\"exit_code\":%d}\n",
                    (unsigned long long)record->at.ns, bh_outcome_text((int)record->outcome.kind),
                    bh_cause_text((int)record->outcome.cause), peak,
                    record->outcome.reported_exit_code);
}

int bh_transitions_format(const struct bh_record *record, char *ret_line, size_t size)
{
    switch ((int)record->kind) {
    case BH_RECORD_TRANSITION:
        return format_transition(record, ret_line, size);
    case BH_RECORD_SIGNAL:
        return format_signal(record, ret_line, size);
    case BH_RECORD_CHECKPOINT:
        return snprintf(ret_line, size,
                        "{\"type\":\"checkpoint\",\"at_ns\":%llu,\"word\":\"%s\",\"reason\":"
                        "\"%s\"}\n",
                        (unsigned long long)record->at.ns,
                        bh_checkpoint_word_text((int)record->checkpoint.word),
                        record->checkpoint.reason);
    case BH_RECORD_OUTCOME:
        return format_outcome(record, ret_line, size);
    default:
        return 0;
    }
}

void bh_transitions_print(void *context, const struct bh_record *record)
{
    (void)context;
    char line[512]; /* below PIPE_BUF: a writable pipe takes it whole and at once */
    int n = bh_transitions_format(record, line, sizeof line);
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (n <= 0 || (size_t)n >= sizeof line || poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT))
        return;
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)n);
    (void)ignored;
}
