#include "api/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>

#include "core/base/scoped.h"

void bh_replay_start(struct bh_replay *replay, const struct bh_policy_config *config, FILE *out)
{
    *replay = (struct bh_replay){.config = config, .out = out};
    bh_policy_start(config, &replay->state);
}

void bh_replay_done(struct bh_replay *replay)
{
    bh_bytes_done(&replay->line);
}

int bh_replay_feed(struct bh_replay *replay, const struct bh_policy_event *event,
                   struct bh_diag *diag)
{
    struct bh_policy_actions actions;
    bh_policy_step(replay->config, &replay->state, event, &actions);
    bh_bytes_clear(&replay->line);
    bh_replay_result_write(&replay->line, replay->config, &replay->state, event, &actions);
    if (replay->line.failed)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "out of memory");
    if (fwrite(replay->line.data, 1, replay->line.length, replay->out) != replay->line.length)
        return bh_err_set(diag, BH_E_IO, NULL, "the output cannot be written");
    return BH_OK;
}

static bool is_blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r' && line[i] != '\n')
            return false;
    }
    return true;
}

static int run_line(struct bh_replay *replay, const char *line, size_t length, bool *ret_bad,
                    struct bh_diag *diag)
{
    struct bh_policy_event event;
    if (is_blank(line, length))
        return BH_OK;
    int r = bh_replay_event_parse(line, length, &event, diag);
    if (r < 0) {
        *ret_bad = r != BH_E_NOMEM;
        return r;
    }
    return bh_replay_feed(replay, &event, diag);
}

int bh_replay_run(struct bh_replay *replay, FILE *in, uint64_t *ret_line, struct bh_diag *diag)
{
    BH_SCOPED_FREE char *line = NULL;
    size_t capacity = 0;
    uint64_t number = 0;
    int r = BH_OK;
    bool bad = false;
    ssize_t length;
    errno = 0;
    while (r == BH_OK && (length = getline(&line, &capacity, in)) >= 0) {
        number++;
        r = run_line(replay, line, (size_t)length, &bad, diag);
    }
    if (r < 0) {
        *ret_line = bad ? number : 0;
        return r;
    }
    if (ferror(in) || !feof(in)) {
        *ret_line = 0;
        return bh_err_sys(diag, errno, "reading the events");
    }
    return BH_OK;
}
