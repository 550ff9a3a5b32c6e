/* Exports: timeline, live set, event list, pickle and Chrome trace (trace.h), each on a thread of
 * its own with a read-only connection, streamed to the client as they are made. A slow client slows
 * its own thread only (back pressure through a bounded buffer); at most BH_EXPORTS_MAX run at once,
 * the next ones wait in line. Not on uv's pool: a stalled client there would stall the imports.
 *
 * An answer that fits the buffer goes out as one body with its length; a failure before the first
 * byte is a problem document, a later one cuts the connection. */
#ifndef BH_SERVER_EXPORTS_H
#define BH_SERVER_EXPORTS_H

#include "server/app.h"

#define BH_EXPORTS_MAX       4u
#define BH_EXPORTS_MAX_QUEUE 128u
#define BH_EXPORT_BUFFER     262144u

int bh_exports_new(struct bh_app *app, struct bh_exports **ret_exports);
/* Answers the call. id: of the job; max_entries: its record.max_entries. */
void bh_exports_start(struct bh_exports *exports, struct bh_call *call, const char *id,
                      uint64_t max_entries, const struct bh_export *query);
/* Ends what is in work; waits for the threads (they end at their next piece). */
void bh_exports_close(struct bh_exports *exports);
void bh_exports_free(struct bh_exports *exports); /* after the loop */

#endif
