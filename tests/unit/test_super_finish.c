/* What a whole foreground run leaves behind: files of the right mode, a report that folds again to
 * the same bytes, and nothing of argv, environment, paths, titles or output in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "core/super/boot.h"
#include "core/super/finish.h"
#include "scratch.h"

static const char *const kept[] = {"journal.bhj", "samples.0",  "samples.1",
                                   "report.json", "status.bin", "reclamation.json"};

static int setup(void **state)
{
    struct scratch *scratch = calloc(1, sizeof *scratch);
    scratch_open(scratch);
    *state = scratch;
    return 0;
}

static int teardown(void **state)
{
    scratch_close(*state);
    free(*state);
    return 0;
}

/* `bulkhead-supervise VERB --run-dir SCRATCH/run OPTIONS… -- COMMAND…` in a process of its own, its
 * streams in SCRATCH/out and SCRATCH/err. */
static int supervise(const struct scratch *scratch, char **words)
{
    char run_dir[160];
    char *argv[32] = {words[0]};
    int argc = 1;
    (void)snprintf(run_dir, sizeof run_dir, "%s/run", scratch->path);
    static char option[] = "--run-dir";
    argv[argc++] = option;
    argv[argc++] = run_dir;
    for (char **word = words + 1; *word; word++)
        argv[argc++] = *word;
    pid_t pid = fork();
    if (pid == 0) {
        struct bh_options options;
        int out = openat(scratch->fd, "out", O_WRONLY | O_CREAT | O_APPEND, 0600);
        int err = openat(scratch->fd, "err", O_WRONLY | O_CREAT | O_APPEND, 0600);
        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(err, STDERR_FILENO);
        if (bh_options_parse(argc, argv, &options, NULL) < 0)
            _exit(64);
        _exit(bh_boot_run(&options));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int open_run(const struct scratch *scratch)
{
    int fd = -1;
    assert_int_equal(bh_io_open_dir(scratch->fd, "run", &fd, NULL), BH_OK);
    return fd;
}

static bool contains(const struct bh_bytes *bytes, const char *what)
{
    return bytes->data && memmem(bytes->data, bytes->length, what, strlen(what)) != NULL;
}

static void read_file(int dirfd, const char *name, struct bh_bytes *ret_bytes)
{
    bh_bytes_clear(ret_bytes);
    (void)bh_io_read_file(dirfd, name, 1u << 24, ret_bytes, NULL);
}

static void wait_for_file(int dirfd, const char *name)
{
    for (int look = 0; look < 4000 && faccessat(dirfd, name, F_OK, 0) < 0; look++) {
        struct timespec pause = {.tv_nsec = 5000000};
        (void)nanosleep(&pause, NULL);
    }
    assert_int_equal(faccessat(dirfd, name, F_OK, 0), 0);
}

static void test_redaction(void **state)
{
    struct scratch *scratch = *state;
    struct bh_bytes bytes = {0};
    char script[512], cwd[200];
    (void)snprintf(cwd, sizeof cwd, "%s/MARKER_CWD", scratch->path);
    assert_int_equal(mkdir(cwd, 0700), 0);
    assert_int_equal(setenv("MARKER_NAME", "MARKER_ENV", 1), 0);
    (void)snprintf(script, sizeof script,
                   "cd %s; echo MARKER_OUT; echo MARKER_ERR >&2; exec -a MARKER_TITLE sleep 0.3",
                   cwd);
    static char verb[] = "run", limit[] = "--limit", size[] = "1GiB", dashes[] = "--",
                shell[] = "/bin/bash", c[] = "-c", zero[] = "MARKER_ARGV0", one[] = "MARKER_ARGV1";
    char *words[] = {verb, limit, size, dashes, shell, c, script, zero, one, NULL};
    assert_int_equal(supervise(scratch, words), 0);
    read_file(scratch->fd, "out", &bytes);
    assert_true(contains(&bytes, "MARKER_OUT")); /* the job really ran and said it */
    int fd = open_run(scratch);
    wait_for_file(fd, "reclamation.json");
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        read_file(fd, kept[i], &bytes);
        if (contains(&bytes, "MARKER") || contains(&bytes, scratch->path))
            fail_msg("%s holds something of the job's own", kept[i]);
        assert_true(strcmp(kept[i], "samples.1") == 0 || bytes.length > 0);
    }
    /* what the supervisor itself said; the job's own line is there, too */
    read_file(scratch->fd, "err", &bytes);
    char *own = strstr((char *)bytes.data, "bulkhead:");
    assert_non_null(own);
    assert_null(strstr(own, "MARKER"));
    (void)close(fd);
    bh_bytes_done(&bytes);
    (void)unsetenv("MARKER_NAME");
}

static void test_modes(void **state)
{
    struct scratch *scratch = *state;
    static char verb[] = "observe", dashes[] = "--", command[] = "/bin/true";
    char *words[] = {verb, dashes, command, NULL};
    mode_t before = umask(0);
    assert_int_equal(supervise(scratch, words), 0);
    (void)umask(before);
    int fd = open_run(scratch);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        if (fstatat(fd, kept[i], &st, AT_SYMLINK_NOFOLLOW) == 0) {
            assert_true(S_ISREG(st.st_mode));
            assert_int_equal(st.st_mode & 0777, 0600);
        }
    }
    (void)close(fd);
}

/* `report rebuild`: the journal alone gives the same bytes again. */
static void test_rebuild(void **state)
{
    struct scratch *scratch = *state;
    struct bh_bytes first = {0}, second = {0};
    char text[512];
    static char verb[] = "run", limit[] = "--limit", size[] = "1GiB", dashes[] = "--",
                shell[] = "/bin/sh", c[] = "-c", script[] = "exit 3";
    char *words[] = {verb, limit, size, dashes, shell, c, script, NULL};
    assert_int_equal(supervise(scratch, words), 3);
    int fd = open_run(scratch);
    read_file(fd, "report.json", &first);
    assert_int_equal(bh_finish_report(fd, scratch->fd, NULL), BH_OK);
    read_file(scratch->fd, "report.json", &second);
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.data, second.data, first.length);
    assert_int_equal(bh_finish_sentence(fd, text, sizeof text, NULL), BH_OK);
    assert_non_null(strstr(text, "Ended by itself with exit code 3. See the end of stderr. Peak "));
    assert_non_null(strstr(text, ", limit 1 GiB."));
    (void)close(fd);
    bh_bytes_done(&first);
    bh_bytes_done(&second);
}

/* A journal that a report cannot be true of: nothing is put in place. */
static void test_suppressed(void **state)
{
    struct scratch *scratch = *state;
    struct bh_diag diag = {0};
    static char verb[] = "run", limit[] = "--limit", size[] = "1GiB", dashes[] = "--",
                command[] = "/bin/true";
    char *words[] = {verb, limit, size, dashes, command, NULL};
    assert_int_equal(supervise(scratch, words), 0);
    int fd = open_run(scratch);
    assert_int_equal(unlinkat(fd, "report.json", 0), 0);
    struct bh_bytes bytes = {0};
    read_file(fd, "journal.bhj", &bytes);
    assert_int_equal(bh_io_replace(fd, "journal.bhj", bytes.data, bytes.length / 2, false, NULL),
                     BH_OK);
    assert_int_equal(bh_finish_report(fd, fd, &diag), BH_E_REPORT_SUPPRESSED);
    assert_string_equal(diag.field, "outcome");
    assert_true(faccessat(fd, "report.json", F_OK, 0) < 0);
    (void)close(fd);
    bh_bytes_done(&bytes);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_redaction),
        TEST(test_modes),
        TEST(test_rebuild),
        TEST(test_suppressed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
