#include "core/super/options.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/base/io.h"
#include "core/base/text.h"

enum option_kind {
    KIND_SIZE,
    KIND_DURATION,
    KIND_COUNT,
    KIND_SIGNAL,
    KIND_TEXT,
    KIND_FLAG,
    KIND_EMERGENCY,
    KIND_STACKS,
};

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset;
    const char *member;
    const char *argument;
    const char *help;
};

static const struct option options[] = {
#define BH_OPTION(name, kind, field, member, argument, help)                                       \
    {name, KIND_##kind, offsetof(struct bh_job_spec, field), member, argument, help},
#include "core/super/options.def"
#undef BH_OPTION
};
#define OPTION_COUNT (sizeof options / sizeof options[0])

/* Those that are not about the job. */
static const char own_help[] =
    "  --run-dir DIR                keep journal, report and trace here; default: a temporary "
    "directory\n"
    "  --report FILE                write the report here as well\n"
    "  --quiet                      no last line on standard error\n"
    "  --json                       one JSON line per transition and signal on standard error\n"
    "  --help                       this text\n";

static const struct option *find(const char *name, size_t length)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strlen(options[i].name) == length && memcmp(options[i].name, name, length) == 0)
            return &options[i];
    }
    return NULL;
}

const char *bh_options_for_member(const char *member)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strcmp(options[i].member, member) == 0)
            return options[i].name;
    }
    return member;
}

/* ---- values -----------------------------------------------------------------------------------
 */

static int choose(const char *text, const char *name, const char *const *words, size_t count,
                  struct bh_diag *diag)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i], text) == 0)
            return (int)i;
    }
    char escaped[64];
    return bh_err_set(diag, BH_E_INVALID_VALUE, name, "%s is none of %s, %s%s%s",
                      bh_text_escape(text, strlen(text), escaped, sizeof escaped), words[0],
                      words[1], count > 2 ? ", " : "", count > 2 ? words[2] : "");
}

static int put_word(const struct option *option, const char *text, void *field,
                    struct bh_diag *diag)
{
    static const char *const actions[] = {"kill", "term"};
    static const char *const stacks[] = {"none", "python", "all"};
    bool emergency = option->kind == KIND_EMERGENCY;
    int word = choose(text, option->name, emergency ? actions : stacks, emergency ? 2 : 3, diag);
    if (word < 0)
        return word;
    if (emergency)
        *(enum bh_emergency_action *)field = (enum bh_emergency_action)word;
    else
        *(enum bh_stacks *)field = (enum bh_stacks)word;
    return BH_OK;
}

/* KILL and STOP can be neither caught nor waited out: no way to ask for anything. */
static int put_signal(const struct option *option, const char *text, int *field,
                      struct bh_diag *diag)
{
    int number = 0;
    int result = bh_text_signal(text, option->name, &number, diag);
    if (result < 0)
        return result;
    if (number == SIGKILL || number == SIGSTOP)
        return bh_err_set(diag, BH_E_INVALID_VALUE, option->name,
                          "%s cannot be caught; name a signal that can, such as SIGTERM", text);
    *field = number;
    return BH_OK;
}

static int put_value(struct bh_job_spec *spec, const struct option *option, const char *text,
                     struct bh_diag *diag)
{
    void *field = (char *)spec + option->offset;
    uint64_t count = 0;
    int result = BH_OK;
    switch (option->kind) {
    case KIND_SIZE:
        return bh_text_size(text, option->name, field, diag);
    case KIND_DURATION:
        return bh_text_duration(text, option->name, field, diag);
    case KIND_COUNT:
        result = bh_text_u64(text, option->name, UINT32_MAX, &count, diag);
        if (result == BH_OK)
            *(uint32_t *)field = (uint32_t)count;
        return result;
    case KIND_SIGNAL:
        return put_signal(option, text, field, diag);
    case KIND_TEXT:
        *(const char **)field = text;
        return BH_OK;
    case KIND_FLAG:
        *(bool *)field = true;
        return BH_OK;
    case KIND_EMERGENCY:
    case KIND_STACKS:
        return put_word(option, text, field, diag);
    }
    return result;
}

/* A band of zero bytes is a value too: it must not read as "not given". */
static void remember_given(struct bh_job_spec *spec, const struct option *option,
                           bool *checkpoint_asked)
{
    const char *member = option->member;
    if (strcmp(member, "warning") == 0)
        spec->warning_given = spec->bands_given = true;
    if (strcmp(member, "recovery") == 0)
        spec->recovery_given = spec->bands_given = true;
    if (strcmp(member, "emergency") == 0)
        spec->emergency_given = spec->bands_given = true;
    if (strncmp(member, "checkpoint/", 11) == 0)
        *checkpoint_asked = true;
}

/* ---- the line ---------------------------------------------------------------------------------
 */

struct line {
    char **argv;
    int argc;
    int at;
    uint32_t seen; /* bit per option: given twice is refused */
    bool checkpoint_asked, limit_given;
};

/* The value behind "=" or in the next word. */
static int take_argument(struct line *line, const char *name, const char *inline_value,
                         const char **ret_value, struct bh_diag *diag)
{
    if (inline_value) {
        *ret_value = inline_value;
        return BH_OK;
    }
    if (line->at + 1 >= line->argc || strcmp(line->argv[line->at + 1], "--") == 0)
        return bh_err_set(diag, BH_E_USAGE, name, "it needs a value");
    *ret_value = line->argv[++line->at];
    return BH_OK;
}

static int take_own_option(struct line *line, const char *word, const char *value,
                           struct bh_options *parsed, struct bh_diag *diag)
{
    size_t length = strcspn(word, "=");
    char escaped[64];
    if (strcmp(word, "--help") == 0) {
        parsed->help = true;
        return BH_OK;
    }
    if (strcmp(word, "--quiet") == 0) {
        parsed->quiet = true;
        return BH_OK;
    }
    if (strcmp(word, "--json") == 0) {
        parsed->json = true;
        return BH_OK;
    }
    if (length == 9 && memcmp(word, "--run-dir", 9) == 0)
        return take_argument(line, "--run-dir", value, &parsed->run_dir, diag);
    if (length == 8 && memcmp(word, "--report", 8) == 0)
        return take_argument(line, "--report", value, &parsed->report, diag);
    (void)bh_text_escape(word, strlen(word), escaped, sizeof escaped);
    return bh_err_set(diag, BH_E_USAGE, escaped, "there is no such option; see --help");
}

static int take_option(struct line *line, struct bh_options *parsed, struct bh_diag *diag)
{
    const char *word = line->argv[line->at];
    size_t length = strcspn(word, "=");
    const char *value = word[length] == '=' ? word + length + 1 : NULL;
    const struct option *option = find(word, length);
    if (!option)
        return take_own_option(line, word, value, parsed, diag);
    uint32_t bit = (uint32_t)1 << (option - options);
    if (line->seen & bit)
        return bh_err_set(diag, BH_E_USAGE, option->name, "it is given twice");
    line->seen |= bit;
    if (option->kind == KIND_FLAG && value)
        return bh_err_set(diag, BH_E_USAGE, option->name, "it takes no value");
    int result = BH_OK;
    if (option->kind != KIND_FLAG)
        result = take_argument(line, option->name, value, &value, diag);
    if (result == BH_OK)
        result = put_value(&parsed->spec, option, value, diag);
    if (result == BH_OK) {
        remember_given(&parsed->spec, option, &line->checkpoint_asked);
        line->limit_given = line->limit_given || option == &options[0];
    }
    return result;
}

_Static_assert(OPTION_COUNT <= 32, "one bit of struct line.seen each");

static int take_command(struct line *line, struct bh_options *parsed, struct bh_diag *diag)
{
    char escaped[64];
    if (line->at < line->argc && strcmp(line->argv[line->at], "--") != 0) {
        const char *word = line->argv[line->at];
        (void)bh_text_escape(word, strlen(word), escaped, sizeof escaped);
        return bh_err_set(diag, BH_E_USAGE, "command", "put -- before the command: … -- %s",
                          escaped);
    }
    if (line->at + 1 >= line->argc)
        return bh_err_set(diag, BH_E_USAGE, "command", "there is no command behind --");
    parsed->spec.argv = (const char *const *)(line->argv + line->at + 1);
    parsed->spec.argc = (size_t)(line->argc - line->at - 1);
    return BH_OK;
}

static int settle(struct line *line, struct bh_options *parsed, struct bh_diag *diag)
{
    struct bh_job_spec *spec = &parsed->spec;
    if (spec->mode == BH_MODE_ENFORCE && !line->limit_given)
        return bh_err_set(diag, BH_E_MODE_MISSING, "--limit",
                          "run needs a limit, such as --limit 6GiB; to watch only, use observe");
    if (spec->mode == BH_MODE_OBSERVE && line->limit_given)
        return bh_err_set(diag, BH_E_USAGE, "--limit", "observe has no limit; use run");
    if (line->checkpoint_asked)
        spec->checkpoint_kind = spec->checkpoint_signal || spec->checkpoint_path
                                    ? BH_CHECKPOINT_SIGNAL
                                    : BH_CHECKPOINT_PROTOCOL;
    int result = bh_job_spec_resolve(spec, diag);
    if (result < 0 && diag) {
        char member[sizeof diag->field];
        memcpy(member, diag->field, sizeof member);
        (void)snprintf(diag->field, sizeof diag->field, "%s", bh_options_for_member(member));
    }
    return result;
}

int bh_options_parse(int argc, char **argv, struct bh_options *ret_options, struct bh_diag *diag)
{
    struct bh_options parsed = {0};
    struct line line = {.argv = argv, .argc = argc, .at = 1};
    int result = BH_OK;
    bh_job_spec_init(&parsed.spec);
    parsed.spec.mode = strcmp(argv[0], "observe") == 0 ? BH_MODE_OBSERVE : BH_MODE_ENFORCE;
    for (; line.at < argc && result == BH_OK; line.at++) {
        const char *word = argv[line.at];
        if (word[0] != '-' || strcmp(word, "--") == 0)
            break;
        result = take_option(&line, &parsed, diag);
    }
    if (result == BH_OK && !parsed.help)
        result = take_command(&line, &parsed, diag);
    if (result == BH_OK && !parsed.help)
        result = settle(&line, &parsed, diag);
    if (result == BH_OK)
        *ret_options = parsed;
    return result;
}

void bh_options_help(int fd)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char left[48], line[256];
        (void)snprintf(left, sizeof left, "%s %s", options[i].name,
                       options[i].argument ? options[i].argument : "");
        int n = snprintf(line, sizeof line, "  %-28s %s\n", left, options[i].help);
        if (n > 0)
            (void)bh_io_write_full(fd, line, (size_t)n);
    }
    (void)bh_io_write_full(fd, own_help, sizeof own_help - 1);
}
