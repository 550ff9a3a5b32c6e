/* Shared by the files that render a report; nobody else's. */
#ifndef BH_MODEL_REPORT_JSON_H
#define BH_MODEL_REPORT_JSON_H

#include "core/base/json_out.h"
#include "core/model/report.h"

/* Milliseconds since the launch (since the first record when nothing was launched); 0 before it. */
uint64_t bh_report_ms(const struct bh_report *report, struct bh_mono at);

/* One tagged value: {"status":"available","value":…} and its kin. seen_at: for `stale`. */
void bh_report_json_observed(struct bh_json *json, const char *key, struct bh_observed observed,
                             const struct bh_report *report, struct bh_mono seen_at);
/* "available" with this number, or "unknown". */
void bh_report_json_known(struct bh_json *json, const char *key, bool known, uint64_t value);
void bh_report_json_signal(struct bh_json *json, const char *key, int signal); /* name; 0: null */
void bh_report_json_ms_or_null(struct bh_json *json, const char *key, uint64_t ns); /* 0: null */
void bh_report_json_text_or_null(struct bh_json *json, const char *key, const char *text);

/* Parts, in the order of the report. */
void bh_report_json_series(const struct bh_report *report, struct bh_json *json);
void bh_report_json_events(const struct bh_report *report, struct bh_json *json);
void bh_report_json_end(const struct bh_report *report, int utc_offset_s, struct bh_json *json);

#endif
