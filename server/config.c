#include "server/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/base/text.h"

#define MAX_FILE 65536u

enum kind { KIND_TEXT, KIND_LIST, KIND_BOOL, KIND_COUNT, KIND_SIZE, KIND_TIME };

static const struct param {
    const char *key;
    enum kind kind;
    const char *value, *argument, *help;
} params[] = {
#define BH_PARAM(name, key, kind, value, argument, help) {key, KIND_##kind, value, argument, help},
#include "server/params.def"
#undef BH_PARAM
};

enum rank { RANK_DEFAULT, RANK_FILE, RANK_ENVIRONMENT, RANK_FLAG };

static void clear(struct bh_config_value *value)
{
    for (unsigned i = 0; i < value->count; i++)
        free(value->texts[i]);
    value->count = 0;
}

void bh_config_done(struct bh_config *config)
{
    for (int i = 0; i < BH_PARAM_COUNT; i++)
        clear(&config->values[i]);
}

static int read_number(const struct param *param, const char *text, uint64_t *ret_number,
                       struct bh_diag *diag)
{
    switch (param->kind) {
    case KIND_TEXT:
    case KIND_LIST:
        return BH_OK;
    case KIND_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return bh_err_set(diag, BH_E_USAGE, param->key, "%s: give true or false", param->key);
        *ret_number = text[0] == 't';
        return BH_OK;
    case KIND_COUNT:
        return bh_text_u64(text, param->key, 1000000000, ret_number, diag);
    case KIND_SIZE:
        return bh_text_size(text, param->key, ret_number, diag);
    case KIND_TIME:
        return bh_text_duration(text, param->key, ret_number, diag);
    }
    return BH_E_INTERNAL;
}

/* Takes one value of one rank; a higher rank drops what lower ones gave. */
static int set(struct bh_config *config, int index, enum rank rank, const char *text,
               struct bh_diag *diag)
{
    struct bh_config_value *value = &config->values[index];
    const struct param *param = &params[index];
    uint64_t number = 0;
    int result = read_number(param, text, &number, diag);
    if (result < 0)
        return result == BH_E_INVALID_VALUE ? BH_E_USAGE : result;
    if (value->rank > (int)rank)
        return BH_OK;
    if (value->rank < (int)rank || param->kind != KIND_LIST)
        clear(value);
    value->rank = (int)rank;
    value->number = number;
    if (value->count == BH_CONFIG_MAX_VALUES)
        return bh_err_set(diag, BH_E_USAGE, param->key, "%s: at most %d values", param->key,
                          BH_CONFIG_MAX_VALUES);
    char *copy = strdup(text);
    if (!copy)
        return BH_E_NOMEM;
    value->texts[value->count++] = copy;
    return BH_OK;
}

static int find(const char *key, size_t length)
{
    for (int i = 0; i < BH_PARAM_COUNT; i++) {
        if (strlen(params[i].key) != length)
            continue;
        size_t j = 0;
        /* "allow-host" on the command line, ALLOW_HOST in the environment, allow_host in the file
         */
        while (j < length &&
               (key[j] == params[i].key[j] || (key[j] == '-' && params[i].key[j] == '_')))
            j++;
        if (j == length)
            return i;
    }
    return -1;
}

static int set_defaults(struct bh_config *config, struct bh_diag *diag)
{
    for (int i = 0; i < BH_PARAM_COUNT; i++) {
        if (!*params[i].value)
            continue;
        int result = set(config, i, RANK_DEFAULT, params[i].value, diag);
        if (result < 0)
            return result;
    }
    return BH_OK;
}

/* Each comma-separated piece of a list, or the whole text. */
static int set_pieces(struct bh_config *config, int index, enum rank rank, const char *text,
                      struct bh_diag *diag)
{
    if (params[index].kind != KIND_LIST)
        return set(config, index, rank, text, diag);
    BH_SCOPED_FREE char *copy = strdup(text);
    char *save = NULL;
    if (!copy)
        return BH_E_NOMEM;
    for (char *piece = strtok_r(copy, ",", &save); piece; piece = strtok_r(NULL, ",", &save)) {
        int result = set(config, index, rank, piece, diag);
        if (result < 0)
            return result;
    }
    return BH_OK;
}

static int read_environment(struct bh_config *config, char *const *environment,
                            struct bh_diag *diag)
{
    static const char prefix[] = "BULKHEAD_";
    for (; environment && *environment; environment++) {
        char key[64];
        const char *equals = strchr(*environment, '=');
        if (!equals || strncmp(*environment, prefix, sizeof prefix - 1) != 0)
            continue;
        size_t length = (size_t)(equals - *environment) - (sizeof prefix - 1);
        if (length == 0 || length >= sizeof key)
            continue;
        for (size_t i = 0; i < length; i++) {
            char c = (*environment)[sizeof prefix - 1 + i];
            key[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        }
        int index = find(key, length);
        /* names that are no setting belong to others: BULKHEAD_RECORD, BULKHEAD_RING_DIR … */
        if (index < 0)
            continue;
        int result = set_pieces(config, index, RANK_ENVIRONMENT, equals + 1, diag);
        if (result < 0)
            return result;
    }
    return BH_OK;
}

static char *trim(char *text)
{
    while (*text == ' ' || *text == '\t')
        text++;
    size_t length = strlen(text);
    while (length && strchr(" \t\r", text[length - 1]))
        text[--length] = '\0';
    return text;
}

static int read_line(struct bh_config *config, char *line, int number, struct bh_diag *diag)
{
    line = trim(line);
    if (!*line || *line == '#')
        return BH_OK;
    char *equals = strchr(line, '=');
    if (!equals)
        return bh_err_set(diag, BH_E_USAGE, NULL, "configuration file, line %d: write key = value",
                          number);
    *equals = '\0';
    char *key = trim(line);
    int index = find(key, strlen(key));
    if (index < 0) {
        char quoted[64];
        return bh_err_set(diag, BH_E_USAGE, NULL, "configuration file, line %d: no setting %s",
                          number, bh_text_escape(key, strlen(key), quoted, sizeof quoted));
    }
    return set_pieces(config, index, RANK_FILE, trim(equals + 1), diag);
}

static int read_file(struct bh_config *config, const char *path, bool must_exist,
                     struct bh_diag *diag)
{
    struct bh_bytes text = {0};
    BH_SCOPED_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return must_exist ? bh_err_sys(diag, errno, "cannot open the configuration file") : BH_OK;
    size_t length = 0;
    unsigned char *room = bh_bytes_reserve(&text, MAX_FILE);
    int result = room ? bh_io_pread(fd, room, MAX_FILE, 0, &length) : BH_E_NOMEM;
    if (result >= 0 && length == MAX_FILE)
        result = bh_err_set(diag, BH_E_USAGE, NULL, "the configuration file is above 64 KiB");
    text.length = result >= 0 ? length : 0;
    if (text.data)
        text.data[text.length] = '\0';
    int number = 1;
    char *line = (char *)text.data;
    while (result >= 0 && line) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        result = read_line(config, line, number++, diag);
        line = end;
    }
    bh_bytes_done(&text);
    return result;
}

static int read_default_file(struct bh_config *config, struct bh_diag *diag)
{
    char path[4096];
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (base && *base)
        (void)snprintf(path, sizeof path, "%s/bulkhead/bulkhead.conf", base);
    else if (home && *home)
        (void)snprintf(path, sizeof path, "%s/.config/bulkhead/bulkhead.conf", home);
    else
        return BH_OK;
    return read_file(config, path, false, diag);
}

struct action_flag {
    const char *name;
    enum bh_config_action action;
};
static const struct action_flag action_flags[] = {
    {"--help", BH_ACTION_HELP},
    {"--version", BH_ACTION_VERSION},
    {"--print-token", BH_ACTION_PRINT_TOKEN},
    {"--login-link", BH_ACTION_LOGIN_LINK},
};

static bool is_action(struct bh_config *config, const char *argument)
{
    for (size_t i = 0; i < sizeof action_flags / sizeof action_flags[0]; i++) {
        if (strcmp(argument, action_flags[i].name) == 0) {
            config->action = action_flags[i].action;
            return true;
        }
    }
    if (strcmp(argument, "--reindex") == 0) {
        config->reindex = true;
        return true;
    }
    return false;
}

/* One flag at argv[i]; returns how many arguments it took. */
static int read_flag(struct bh_config *config, int argc, char *const *argv, int i,
                     const char **ret_file, struct bh_diag *diag)
{
    char quoted[64];
    const char *argument = argv[i];
    if (is_action(config, argument))
        return 1;
    const char *name = strncmp(argument, "--", 2) == 0 ? argument + 2 : "";
    size_t length = strcspn(name, "=");
    bool config_file = length == 6 && strncmp(name, "config", 6) == 0;
    int index = config_file ? -1 : find(name, length);
    if (!config_file && (index < 0 || memchr(name, '_', length)))
        return bh_err_set(diag, BH_E_USAGE, NULL, "no option %s; --help lists them",
                          bh_text_escape(argument, strlen(argument), quoted, sizeof quoted));
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    int taken = 1;
    if (!value && index >= 0 && params[index].kind == KIND_BOOL)
        value = "true";
    if (!value && i + 1 < argc) {
        value = argv[i + 1];
        taken = 2;
    }
    if (!value)
        return bh_err_set(diag, BH_E_USAGE, NULL, "%s needs a value", argument);
    if (config_file) {
        *ret_file = value;
        return taken;
    }
    int result = set(config, index, RANK_FLAG, value, diag);
    return result < 0 ? result : taken;
}

int bh_config_read(struct bh_config *ret_config, int argc, char *const *argv,
                   char *const *environment, struct bh_diag *diag)
{
    struct bh_config config = {0};
    const char *file = NULL;
    int result = set_defaults(&config, diag);
    for (int i = 1; result >= 0 && i < argc; i += result)
        result = read_flag(&config, argc, argv, i, &file, diag);
    if (result >= 0)
        result = read_environment(&config, environment, diag);
    if (result >= 0)
        result = file ? read_file(&config, file, true, diag) : read_default_file(&config, diag);
    if (result < 0) {
        bh_config_done(&config);
        return result;
    }
    *ret_config = config;
    return BH_OK;
}

const char *bh_config_text(const struct bh_config *config, enum bh_param param)
{
    return config->values[param].count ? config->values[param].texts[0] : "";
}

uint64_t bh_config_number(const struct bh_config *config, enum bh_param param)
{
    return config->values[param].number;
}

int bh_config_set_text(struct bh_config *config, enum bh_param param, const char *text)
{
    struct bh_config_value *value = &config->values[param];
    char *copy = strdup(text);
    if (!copy)
        return BH_E_NOMEM;
    clear(value);
    value->texts[value->count++] = copy;
    return BH_OK;
}

void bh_config_help(FILE *out)
{
    (void)fprintf(out,
                  "bulkheadd " BH_VERSION ": launches programs under a memory limit and serves "
                  "their state over HTTP.\n\nusage: bulkheadd [options]\n\n");
    for (int i = 0; i < BH_PARAM_COUNT; i++) {
        char flag[80];
        (void)snprintf(flag, sizeof flag, "--%s%s%s", params[i].key,
                       params[i].kind == KIND_BOOL ? "" : " ", params[i].argument);
        for (char *c = flag; *c && *c != ' '; c++) {
            if (*c == '_')
                *c = '-';
        }
        (void)fprintf(out, "  %-34s %s%s%s%s\n", flag, params[i].help, *params[i].value ? " [" : "",
                      params[i].value, *params[i].value ? "]" : "");
    }
    (void)fprintf(out, "  %-34s %s\n  %-34s %s\n  %-34s %s\n  %-34s %s\n  %-34s %s\n  %-34s %s\n",
                  "--config FILE",
                  "settings, key = value; default ~/.config/bulkhead/bulkhead.conf", "--reindex",
                  "rebuild the database from the run directories, then serve", "--login-link",
                  "print a fresh link to the page of the running server, and exit", "--print-token",
                  "print the bearer token, and exit", "--version", "", "--help", "");
    (void)fprintf(out,
                  "\nA flag is stronger than the environment (BULKHEAD_STATE …), that than the "
                  "file, that than the default.\n");
}
