/* bulkhead-supervise: run, observe, start, adopt, version. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/log.h"
#include "core/super/adopt.h"
#include "core/super/boot.h"
#include "core/super/launch.h"

static const char usage[] = "usage: bulkhead-supervise run --limit SIZE [options] -- command…\n"
                            "       bulkhead-supervise observe [options] -- command…\n"
                            "       bulkhead-supervise start RUNDIR\n"
                            "       bulkhead-supervise adopt RUNDIR\n"
                            "       bulkhead-supervise version\n";

static const char help_intro[] =
    "\nRuns a command and watches the memory the operating system charges to it and to everything "
    "it\n"
    "starts. At the limit it is asked to end, then killed; nothing of it is left. `observe` only\n"
    "measures. Sizes: 6GiB, 512MiB, 1.5GB or bytes. Times: 250us, 50ms, 30s, 2h.\n\n";

static const char help_end[] =
    "\nExit status: the command's own; 128 + n when a signal ended it; 75 stopped by the limit or "
    "on\n"
    "request; 64 bad arguments; 70 supervisor failure; 74 report lost; 126, 127 not launched.\n";

static void say(int fd, const char *text)
{
    (void)bh_io_write_full(fd, text, strlen(text));
}

static int run(int argc, char **argv)
{
    static struct bh_options options;
    struct bh_diag diag = {0};
    int result = bh_options_parse(argc, argv, &options, &diag);
    if (result < 0) {
        char line[640];
        int n = snprintf(line, sizeof line, "bulkhead-supervise: %s: %s%s%s\n", bh_err_code(result),
                         diag.field, diag.field[0] ? ": " : "", diag.detail);
        (void)bh_io_write_full(STDERR_FILENO, line, (size_t)n);
        return 64;
    }
    if (options.help) {
        say(STDOUT_FILENO, usage);
        say(STDOUT_FILENO, help_intro);
        bh_options_help(STDOUT_FILENO);
        say(STDOUT_FILENO, help_end);
        return 0;
    }
    return bh_boot_run(&options);
}

static int refuse(const char *verb)
{
    char line[128];
    int n =
        verb ? snprintf(line, sizeof line, "bulkhead-supervise: there is no command %.64s\n", verb)
             : snprintf(line, sizeof line, "bulkhead-supervise: a command is missing\n");
    (void)bh_io_write_full(STDERR_FILENO, line, (size_t)n);
    say(STDERR_FILENO, usage);
    return 64;
}

/* Whoever closed a standard stream before starting us: without this the next file we open would get
 * its number, and the job or a message would write into it. */
static void fill_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        (void)close(fd);
}

int main(int argc, char **argv)
{
    fill_standard_streams();
    bh_launch_own_files();
    bh_log_setup("bulkhead-supervise", BH_LOG_INFO);
    const char *verb = argc > 1 ? argv[1] : NULL;
    if (!verb)
        return refuse(NULL);
    if (strcmp(verb, "run") == 0 || strcmp(verb, "observe") == 0)
        return run(argc - 1, argv + 1);
    if (strcmp(verb, "start") == 0 && argc == 3)
        return bh_boot_start(argv[2]);
    if (strcmp(verb, "adopt") == 0 && argc == 3)
        return bh_adopt_main(argv[2]);
    if (strcmp(verb, "version") == 0 || strcmp(verb, "--version") == 0) {
        say(STDOUT_FILENO, "bulkhead-supervise " BH_VERSION "\n");
        return 0;
    }
    if (strcmp(verb, "help") == 0 || strcmp(verb, "--help") == 0) {
        say(STDOUT_FILENO, usage);
        say(STDOUT_FILENO, help_intro);
        bh_options_help(STDOUT_FILENO);
        say(STDOUT_FILENO, help_end);
        return 0;
    }
    return refuse(verb);
}
