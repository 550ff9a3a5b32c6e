/* `log` events: says that a live job's output grew, while somebody listens. Loop thread. */
#ifndef BH_SERVER_LOG_NOTICE_H
#define BH_SERVER_LOG_NOTICE_H

#include "server/app.h"

/* Looks at the logs of all live jobs; called by a timer. */
void bh_log_notice(struct bh_app *app);

#endif
