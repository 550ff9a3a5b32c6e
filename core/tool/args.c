#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/tool/tool.h"

static void print_usage(const struct bh_tool_usage *usage)
{
    printf("usage: bulkhead-tool %s\n%s", usage->line, usage->text);
    for (size_t i = 0; i < usage->count; i++) {
        const struct bh_tool_option *option = &usage->options[i];
        char name[40];
        (void)snprintf(name, sizeof name, "%s %s", option->name, option->argument);
        printf("  %-22s %s\n", name, option->help);
    }
}

static struct bh_tool_option *find(const struct bh_tool_usage *usage, const char *text,
                                   size_t length)
{
    for (size_t i = 0; i < usage->count; i++) {
        const char *name = usage->options[i].name;
        if (strlen(name) == length && memcmp(name, text, length) == 0)
            return &usage->options[i];
    }
    return NULL;
}

static int store(const struct bh_tool_option *option, const char *value, struct bh_diag *diag)
{
    uint64_t number;
    int error;
    switch (option->kind) {
    case BH_TOOL_FLAG:
        *(bool *)option->target = true;
        return BH_OK;
    case BH_TOOL_TEXT:
        *(const char **)option->target = value;
        return BH_OK;
    case BH_TOOL_U64:
        return bh_text_u64(value, option->name, option->maximum ? option->maximum : INT64_MAX,
                           option->target, diag);
    case BH_TOOL_US:
        error = bh_text_u64(value, option->name, INT64_MAX - 1, &number, diag);
        if (error >= 0)
            *(int64_t *)option->target = (int64_t)number;
        return error;
    }
    return BH_E_INTERNAL;
}

/* One option at argv[*at]; *at moves past its value. */
static int take_option(const struct bh_tool_usage *usage, int argc, char **argv, int *at,
                       struct bh_diag *diag)
{
    const char *text = argv[*at];
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    struct bh_tool_option *option = find(usage, text, length);
    if (!option)
        return bh_err_set(diag, BH_E_USAGE, NULL, "There is no option %.60s; see --help", text);
    if (option->given)
        return bh_err_set(diag, BH_E_USAGE, option->name, "It is given twice");
    option->given = true;
    const char *value = equals ? equals + 1 : NULL;
    if (option->kind == BH_TOOL_FLAG && value)
        return bh_err_set(diag, BH_E_USAGE, option->name, "It takes no value");
    if (option->kind != BH_TOOL_FLAG && !value) {
        if (*at + 1 >= argc)
            return bh_err_set(diag, BH_E_USAGE, option->name, "It needs a value: %s",
                              option->argument);
        value = argv[++*at];
    }
    return store(option, value, diag);
}

int bh_tool_parse(const struct bh_tool_usage *usage, int argc, char **argv, const char **ret_path,
                  struct bh_diag *diag)
{
    const char *path = NULL;
    bool options = true;
    for (int i = 0; i < argc; i++) {
        if (options && strcmp(argv[i], "--help") == 0) {
            print_usage(usage);
            return 1;
        }
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
            continue;
        }
        if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
            int error = take_option(usage, argc, argv, &i, diag);
            if (error < 0)
                return error;
            continue;
        }
        if (path)
            return bh_err_set(diag, BH_E_USAGE, NULL, "One path is enough; usage: bulkhead-tool %s",
                              usage->line);
        path = argv[i];
    }
    if (!path || path[0] == '\0')
        return bh_err_set(diag, BH_E_USAGE, NULL, "A path is missing; usage: bulkhead-tool %s",
                          usage->line);
    *ret_path = path;
    return BH_OK;
}

int bh_tool_word(const char *text, const char *const *words, size_t count, const char *field,
                 struct bh_diag *diag)
{
    char list[128] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0)
            return (int)i;
        int n = snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
        used += n > 0 && (size_t)n < sizeof list - used ? (size_t)n : 0;
    }
    return bh_err_set(diag, BH_E_INVALID_VALUE, field, "\"%.40s\" is none of %s", text, list);
}
