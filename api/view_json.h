/* The shape of every answer (openapi/examples), written with core's JSON writer. Functions with a
 * key write one value into an open object or array (key NULL); the others write a whole document.
 */
#ifndef BH_API_VIEW_JSON_H
#define BH_API_VIEW_JSON_H

#include "api/view.h"

/* {"status":…,"value":…}; reason (may be NULL) goes with `unavailable`, code with `error`. */
void bh_view_observed(struct bh_json *json, const char *key, struct bh_observed value,
                      const char *reason);
/* RFC 3339, or null for us 0. */
void bh_view_time(struct bh_json *json, const char *key, struct bh_wall at);

void bh_view_job(struct bh_json *json, const char *key, const struct bh_job_view *view);
void bh_view_job_document(const struct bh_job_view *view, struct bh_bytes *ret_body);
/* GET spec: as accepted, environment values redacted. */
void bh_view_spec_document(const struct bh_job_spec *spec, struct bh_bytes *ret_body);

/* Facts of the journal: members of a transition, signal or checkpoint object. anchor turns their
 * times into wall time; started is the zero of at_ms. job_id NULL leaves it out. */
void bh_view_transition(struct bh_json *json, const char *key, const char *job_id,
                        const struct bh_record *record, struct bh_anchor anchor,
                        struct bh_wall started);
void bh_view_signal(struct bh_json *json, const char *key, const char *job_id,
                    const struct bh_record *record, struct bh_anchor anchor,
                    struct bh_wall started);
void bh_view_checkpoint(struct bh_json *json, const char *key, const char *job_id,
                        const struct bh_record *record, struct bh_anchor anchor,
                        struct bh_wall started);
void bh_view_member(struct bh_json *json, const char *key, const struct bh_member_view *view);
void bh_view_sample_document(const struct bh_sample_view *view, struct bh_bytes *ret_body);

void bh_view_host_document(const struct bh_host_view *view, struct bh_bytes *ret_body);
void bh_view_info_document(const struct bh_info_view *view, struct bh_bytes *ret_body);

#endif
