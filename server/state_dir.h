/* The state directory: found or made, its lock, and the defaults that are paths beside the program.
 * Used by main before the loop exists. */
#ifndef BH_SERVER_STATE_DIR_H
#define BH_SERVER_STATE_DIR_H

#include "server/app.h"

/* Completes the computed settings (state, socket, web, openapi, supervisor, recorder) in config. */
int bh_state_defaults(struct bh_config *config, struct bh_diag *diag);
/* Opens (makes) state and jobs folder; fills state_path, state_fd, jobs_fd. */
int bh_state_open(struct bh_app *app, struct bh_diag *diag);
/* Takes the lock of the state directory; BH_E_SERVER_RUNNING with the pid in the diag. */
int bh_state_lock(struct bh_app *app, struct bh_diag *diag);
void bh_state_close(struct bh_app *app);

#endif
