/* GET /metrics: Prometheus text 0.0.4, or OpenMetrics 1.0. Counters of requests are kept here, the
 * rest is read from registry and store when asked. Loop thread. */
#ifndef BH_SERVER_METRICS_H
#define BH_SERVER_METRICS_H

#include "api/view.h"
#include "server/app.h"

int bh_metrics_new(struct bh_metrics **ret_metrics);
void bh_metrics_free(struct bh_metrics *metrics);
/* route NULL: a file or an unknown path. */
void bh_metrics_count(struct bh_metrics *metrics, const struct bh_route *route,
                      enum bh_method method, int status);
/* A record that a supervisor sent: signals, and the CPU time in the outcome. */
void bh_metrics_record(struct bh_metrics *metrics, const struct bh_record *record);
/* A job is over: its last values are shown for ten minutes more. */
void bh_metrics_over(struct bh_metrics *metrics, const struct bh_job_view *view);
void bh_metrics_write(struct bh_app *app, bool openmetrics, struct bh_bytes *ret_body);

#endif
