/* libFuzzer: config and events of the replay tool. The first line of the input is the config, the
 * rest the events (a journal among them). Corpus: some cases of tests/golden/policy, joined. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static FILE *sink;

static void run(const struct bh_policy_config *config, const char *events, size_t length)
{
    struct bh_replay replay;
    uint64_t line = 0;
    FILE *in = fmemopen((void *)(uintptr_t)events, length, "rb");
    if (!in)
        return;
    bh_policy_replay_start(&replay, config, sink);
    (void)bh_policy_replay_run(&replay, in, &line, NULL);
    bh_policy_replay_done(&replay);
    (void)fclose(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bh_policy_config config;
    struct bh_policy_event event;
    const char *text = (const char *)data;
    const char *end = size ? memchr(text, '\n', size) : NULL;
    size_t config_length = end ? (size_t)(end - text) : size;
    if (!sink)
        sink = fopen("/dev/null", "wbe");
    if (!sink)
        abort();
    (void)bh_policy_replay_event_parse(text, config_length, &event, NULL);
    if (bh_policy_replay_config_parse(text, config_length, &config, NULL) < 0)
        return 0;
    if (bh_policy_validate(&config, NULL) < 0)
        abort(); /* what the parser accepts is valid */
    /* a retry of nanoseconds is legal and would tick for ever through a journal's hours */
    if (config.kill_retry_ns > 0 && config.kill_retry_ns < 1000000)
        return 0;
    if (end && size > config_length + 1)
        run(&config, end + 1, size - config_length - 1);
    return 0;
}
