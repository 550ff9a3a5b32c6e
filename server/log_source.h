/* GET logs: a job's out.log or err.log as bytes, whole, from an offset, a range, or followed until
 * the job has ended. Offsets are stable; blocks that the cap punched out answer 410. Loop thread:
 * reads are of the page cache mostly and bounded to 64 KiB each. */
#ifndef BH_SERVER_LOG_SOURCE_H
#define BH_SERVER_LOG_SOURCE_H

#include "server/app.h"

void bh_log_answer(struct bh_app *app, struct bh_call *call, const char *id,
                   const struct bh_logs *logs);

#endif
