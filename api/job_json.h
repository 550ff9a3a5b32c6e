/* The body of POST /v1/jobs to a resolved spec. Pure: does not look at the machine (host memory,
 * programs and folders are the backend's to check). */
#ifndef BH_API_JOB_JSON_H
#define BH_API_JOB_JSON_H

#include "api/api_types.h"
#include "api/problem.h"

/* Fills ret_launch, which then owns what its spec points to; release it with bh_launch_done. On
 * failure problem->error is set and nothing is owned. */
int bh_job_json_read(const void *data, size_t length, struct bh_launch_request *ret_launch,
                     struct bh_problem *problem);
/* The same with members of an earlier spec (as bh_job_json_write wrote it) replaced by those of the
 * body, for relaunch; an empty body changes nothing. */
int bh_job_json_read_over(const struct bh_bytes *base, const void *data, size_t length,
                          struct bh_launch_request *ret_launch, struct bh_problem *problem);
void bh_launch_done(struct bh_launch_request *launch);

/* Writes a spec as a body that gives the same spec again (env values included: never served). */
void bh_job_json_write(const struct bh_job_spec *spec, struct bh_bytes *ret_body);

/* Body of PATCH limits and of the launch: limit and bands into command or spec members. */
int bh_limits_json_read(const void *data, size_t length, struct bh_command *ret_command,
                        struct bh_problem *problem);

#endif
