/* Settings of bulkheadd from params.def, with one precedence: flag > environment > file > default.
 * Read once in main, before anything is opened; read-only afterwards.
 *
 * Failures: BH_E_USAGE with the flag, variable or key named; BH_E_NOT_FOUND for a --config that is
 * not there. */
#ifndef BH_SERVER_CONFIG_H
#define BH_SERVER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/err.h"

enum bh_param {
#define BH_PARAM(name, key, kind, value, argument, help) BH_PARAM_##name,
#include "server/params.def"
#undef BH_PARAM
    BH_PARAM_COUNT
};

enum bh_config_action {
    BH_ACTION_SERVE,
    BH_ACTION_HELP,
    BH_ACTION_VERSION,
    BH_ACTION_PRINT_TOKEN,
    BH_ACTION_LOGIN_LINK,
};

#define BH_CONFIG_MAX_VALUES 8

struct bh_config_value {
    char *texts[BH_CONFIG_MAX_VALUES]; /* owned */
    unsigned count;
    uint64_t number; /* BOOL 0/1, COUNT, SIZE bytes, TIME ns */
    int rank;        /* where it came from: 0 default, 1 file, 2 environment, 3 flag */
};

struct bh_config {
    struct bh_config_value values[BH_PARAM_COUNT];
    enum bh_config_action action;
    bool reindex;
};

/* environment: "NAME=value" strings, NULL-terminated. */
int bh_config_read(struct bh_config *ret_config, int argc, char *const *argv,
                   char *const *environment, struct bh_diag *diag);
void bh_config_done(struct bh_config *config);

/* First text, or "". */
const char *bh_config_text(const struct bh_config *config, enum bh_param param);
uint64_t bh_config_number(const struct bh_config *config, enum bh_param param);
/* Replaces a computed default. */
int bh_config_set_text(struct bh_config *config, enum bh_param param, const char *text);
/* --help, from the table. */
void bh_config_help(FILE *out);

#endif
