/* GET /metrics: Prometheus text 0.0.4, or OpenMetrics 1.0. Counters of requests are kept here, the
 * rest is read from registry and store when asked. Loop thread. */
#ifndef BH_SERVER_METRICS_H
#define BH_SERVER_METRICS_H

#include "server/app.h"

int bh_metrics_new(struct bh_metrics **ret_metrics);
void bh_metrics_free(struct bh_metrics *metrics);
/* route NULL: a file or an unknown path. */
void bh_metrics_count(struct bh_metrics *metrics, const struct bh_route *route,
                      enum bh_method method, int status);
void bh_metrics_write(struct bh_app *app, bool openmetrics, struct bh_bytes *ret_body);

#endif
