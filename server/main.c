/* bulkheadd: settings, the actions that need no server, and the server itself. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/log.h"
#include "server/app.h"
#include "server/ask.h"
#include "server/state_dir.h"

extern char **environ;

static int fail(int error, const struct bh_diag *diag)
{
    (void)fprintf(stderr, "bulkheadd: %s\n", diag->detail[0] ? diag->detail : bh_err_title(error));
    return bh_err_exit(error);
}

static int print_token(struct bh_app *app)
{
    char token[BH_AUTH_SECRET_SIZE];
    struct bh_diag diag = {0};
    int result = bh_state_open(app, &diag);
    if (result >= 0)
        result = bh_auth_read_token(app->state_fd, token, &diag);
    bh_state_close(app);
    if (result < 0)
        return fail(result, &diag);
    (void)puts(token);
    return 0;
}

static int print_login_link(const struct bh_config *config)
{
    char url[256];
    struct bh_diag diag = {0};
    int result = bh_ask_login_link(bh_config_text(config, BH_PARAM_SOCKET), url, sizeof url, &diag);
    if (result < 0)
        return fail(result, &diag);
    (void)puts(url);
    return 0;
}

static int act(struct bh_app *app, struct bh_config *config)
{
    switch (config->action) {
    case BH_ACTION_HELP:
        bh_config_help(stdout);
        return 0;
    case BH_ACTION_VERSION:
        (void)puts("bulkheadd " BH_VERSION);
        return 0;
    case BH_ACTION_PRINT_TOKEN:
        return print_token(app);
    case BH_ACTION_LOGIN_LINK:
        return print_login_link(config);
    case BH_ACTION_SERVE:
        return bh_app_run(app, config);
    }
    return 70;
}

/* Whoever closed a standard stream before starting us: without this the next file we open would get
 * its number, and a log line would be written into it. */
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
    static struct bh_app app; /* large: not on the stack */
    struct bh_config config;
    struct bh_diag diag = {0};
    fill_standard_streams();
    bh_log_setup("bulkheadd", BH_LOG_INFO);
    int result = bh_config_read(&config, argc, argv, environ, &diag);
    if (result >= 0)
        result = bh_state_defaults(&config, &diag);
    if (result < 0)
        return fail(result, &diag);
    app.config = &config;
    app.state_fd = app.jobs_fd = app.lock_fd = -1;
    int status = act(&app, &config);
    bh_config_done(&config);
    return status;
}
