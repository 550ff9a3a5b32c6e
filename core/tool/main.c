/* bulkhead-tool: offline work on run directories. See tool.h. */
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/tool/tool.h"

static const struct command {
    const char *first, *second, *text;
    int (*run)(int argc, char **argv, struct bh_diag *diag);
} COMMANDS[] = {
#define BH_TOOL_COMMAND(function, first, second, text) {first, second, text, bh_tool_##function},
#include "core/tool/commands.def"
#undef BH_TOOL_COMMAND
};
#define COMMAND_COUNT (sizeof COMMANDS / sizeof COMMANDS[0])

static void print_help(FILE *stream)
{
    fputs("usage: bulkhead-tool COMMAND [options] RUNDIR\n"
          "Looks into the run directory of a job, without a server.\n\n",
          stream);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s %s", COMMANDS[i].first, COMMANDS[i].second);
        fprintf(stream, "  %-16s %s\n", name, COMMANDS[i].text);
    }
    fputs("\nbulkhead-tool COMMAND --help lists the options of one.\n", stream);
}

static const struct command *find(int argc, char **argv, int *ret_used)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        bool two = COMMANDS[i].second[0] != '\0';
        if (strcmp(argv[1], COMMANDS[i].first) != 0)
            continue;
        if (two && (argc < 3 || strcmp(argv[2], COMMANDS[i].second) != 0))
            continue;
        *ret_used = two ? 3 : 2;
        return &COMMANDS[i];
    }
    return NULL;
}

static int refuse(int argc, char **argv)
{
    char shown[200];
    if (argc < 2) {
        print_help(stderr);
        return bh_err_exit(BH_E_USAGE);
    }
    fprintf(stderr, "bulkhead-tool: there is no command \"%s%s%s\"; see bulkhead-tool --help\n",
            bh_text_escape(argv[1], strlen(argv[1]), shown, sizeof shown / 2), argc > 2 ? " " : "",
            argc > 2 ? bh_text_escape(argv[2], strlen(argv[2]), shown + sizeof shown / 2,
                                      sizeof shown / 2)
                     : "");
    return bh_err_exit(BH_E_USAGE);
}

int main(int argc, char **argv)
{
    struct bh_diag diag = {"", ""};
    int used = 0;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
        print_help(stdout);
        return 0;
    }
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0)) {
        puts("bulkhead-tool " BH_VERSION);
        return 0;
    }
    const struct command *command = argc > 1 ? find(argc, argv, &used) : NULL;
    if (!command)
        return refuse(argc, argv);
    int result = command->run(argc - used, argv + used, &diag);
    if (result >= 0)
        return result;
    fprintf(stderr, "bulkhead-tool: %s%s%s\n", diag.field, diag.field[0] ? ": " : "",
            diag.detail[0] ? diag.detail : bh_err_title(result));
    return bh_err_exit(result);
}
