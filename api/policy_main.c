/* bulkhead-policy: replays events through the policy machine. See `bulkhead-policy --help`. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "api/replay.h"
#include "core/base/scoped.h"
#include "core/base/text.h"

static const char help[] =
    "usage: bulkhead-policy replay CONFIG.json EVENTS.ndjson\n"
    "       bulkhead-policy version\n"
    "       bulkhead-policy --help\n"
    "\n"
    "Feeds events to the intervention policy and prints one line of compact JSON for each:\n"
    "  {\"t\":…,\"state\":…,\"actions\":[…],\"next_deadline\":…}\n"
    "Either file may be - for standard input. EVENTS may also be the journal of a run: its "
    "samples\n"
    "and its end are replayed with the limit of CONFIG, with a tick at each deadline.\n"
    "\n"
    "CONFIG is one object. Sizes are bytes, times nanoseconds; null means absent.\n"
    "  mode                   enforce or observe; required\n"
    "  limit                  required to enforce, at least 2\n"
    "  warning, recovery, emergency   bands; from the limit where absent\n"
    "  required_breaches      2       max_unusable            3\n"
    "  max_sample_age_ns      500 ms  max_sample_window_ns    250 ms\n"
    "  grace_ns               1 s     grace_per_gib_ns        0\n"
    "  grace_max_ns           grace_ns\n"
    "  checkpoint_timeout_ns  none    wall_time_ns            none\n"
    "  first_request_id       1       growth_kill             false\n"
    "  emergency_action       kill    (or term)\n"
    "  kill_retry_ns          none    kill_wait_ns            none\n"
    "  breach_hold_ns         0\n"
    "\n"
    "Example event:\n"
    "  {\"type\":\"sample\",\"captured_at\":0,\"processed_at\":0,\"window\":1,\"bytes\":151}\n"
    "\n"
    "Exit status: 0; 64 for wrong usage, a refused CONFIG (the key is named on standard error) or "
    "a\n"
    "bad line of EVENTS (its number is); 74 when a file cannot be read or written.\n";

static int complain(int error, const char *where, const struct bh_diag *diag)
{
    char detail[2 * sizeof diag->detail]; /* it may quote foreign text */
    bh_text_escape(diag->detail, strlen(diag->detail), detail, sizeof detail);
    fprintf(stderr, "bulkhead-policy: %s: %s\n", where, detail);
    return bh_err_exit(error);
}

/* The stream of a file argument; stdin is nobody's to close. */
static FILE *open_input(const char *path, FILE **ret_owned)
{
    if (strcmp(path, "-") == 0)
        return stdin;
    *ret_owned = fopen(path, "rbe");
    return *ret_owned;
}

static int read_all(FILE *in, struct bh_bytes *ret_bytes, struct bh_diag *diag)
{
    size_t n;
    do {
        unsigned char *room = bh_bytes_reserve(ret_bytes, BUFSIZ);
        if (!room)
            return bh_err_set(diag, BH_E_NOMEM, NULL, "out of memory");
        n = fread(room, 1, BUFSIZ, in);
        ret_bytes->length += n;
    } while (n > 0);
    return ferror(in) ? bh_err_sys(diag, errno, "reading") : BH_OK;
}

static int load_config(const char *path, struct bh_policy_config *ret_config, struct bh_diag *diag)
{
    BH_SCOPED_FILE FILE *owned = NULL;
    struct bh_bytes text = {0};
    FILE *in = open_input(path, &owned);
    if (!in)
        return bh_err_sys(diag, errno, "opening");
    int r = read_all(in, &text, diag);
    if (r == BH_OK)
        r = bh_policy_replay_config_parse((const char *)text.data, text.length, ret_config, diag);
    bh_bytes_done(&text);
    return r;
}

/* The full-rate samples that lie beside a journal; there need not be any. */
static int open_samples(const char *events_path, const char *name)
{
    char path[PATH_MAX];
    const char *slash = strrchr(events_path, '/');
    int folder = slash ? (int)(slash - events_path) + 1 : 0;
    int n = snprintf(path, sizeof path, "%.*s%s", folder, events_path, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static int run_events(const struct bh_policy_config *config, FILE *in, const char *events_path)
{
    BH_SCOPED_FD int samples_0 = open_samples(events_path, "samples.0");
    BH_SCOPED_FD int samples_1 = open_samples(events_path, "samples.1");
    struct bh_diag diag = {0};
    struct bh_replay replay;
    uint64_t line = 0;
    char where[64] = "events";
    bh_policy_replay_start(&replay, config, stdout);
    if (in != stdin) {
        replay.samples_fds[0] = samples_0;
        replay.samples_fds[1] = samples_1;
    }
    int r = bh_policy_replay_run(&replay, in, &line, &diag);
    bh_policy_replay_done(&replay);
    if (fflush(stdout) != 0 && r == BH_OK)
        r = bh_err_sys(&diag, errno, "writing the output");
    if (r == BH_OK)
        return 0;
    if (line > 0)
        snprintf(where, sizeof where, "events line %llu", (unsigned long long)line);
    return complain(r, where, &diag);
}

static int replay(const char *config_path, const char *events_path)
{
    BH_SCOPED_FILE FILE *owned = NULL;
    struct bh_diag diag = {0};
    struct bh_policy_config config;
    int r = load_config(config_path, &config, &diag);
    if (r < 0) {
        char where[128];
        snprintf(where, sizeof where, "config%s%s", diag.field[0] ? " key " : "", diag.field);
        return complain(r, where, &diag);
    }
    FILE *in = open_input(events_path, &owned);
    if (!in) {
        r = bh_err_sys(&diag, errno, "opening");
        return complain(r, "events", &diag);
    }
    if (in == stdin) /* a peer may wait for each answer before it sends the next event */
        setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    return run_events(&config, in, events_path);
}

static int usage(const char *what)
{
    fprintf(stderr, "bulkhead-policy: %s; see bulkhead-policy --help\n", what);
    return bh_err_exit(BH_E_USAGE);
}

static int print(const char *text)
{
    if (fputs(text, stdout) < 0 || fflush(stdout) != 0)
        return bh_err_exit(BH_E_IO);
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print(help);
    }
    if (argc < 2)
        return usage("no command given");
    if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0)
        return argc == 2 ? print("bulkhead-policy " BH_VERSION "\n")
                         : usage("version takes no arguments");
    if (strcmp(argv[1], "replay") != 0)
        return usage("no such command");
    if (argc != 4)
        return usage("replay takes CONFIG.json and EVENTS.ndjson");
    if (strcmp(argv[2], "-") == 0 && strcmp(argv[3], "-") == 0)
        return usage("only one of the two files can be standard input");
    return replay(argv[2], argv[3]);
}
