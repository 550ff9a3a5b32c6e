/* The operations behind the routes (api_types.h, struct bh_backend) on top of registry, store, hub
 * and exports. Split by subject: backend.c (reading jobs), launch.c, backend_control.c,
 * backend_results.c,
 * backend_history.c, backend_server.c. Loop thread. */
#ifndef BH_SERVER_BACKEND_H
#define BH_SERVER_BACKEND_H

#include "api/view.h"
#include "server/jobs.h"

/* Fills app->backend. */
void bh_backend_init(struct bh_app *app);

/* A job as it is asked for by id or name: in the registry, or a row with its spec. */
struct bh_found {
    struct bh_job *job; /* NULL: */
    struct bh_store_job row;
    struct bh_job_spec *spec; /* owned when job is NULL */
};
/* BH_E_NOT_FOUND. Release with bh_found_done. */
int bh_backend_find(struct bh_app *app, const char *id_or_name, struct bh_found *ret_found,
                    struct bh_diag *diag);
void bh_found_done(struct bh_found *found);
const char *bh_found_id(const struct bh_found *found);
const struct bh_job_spec *bh_found_spec(const struct bh_found *found);
void bh_found_view(const struct bh_found *found, struct bh_job_view *ret_view);
/* The same, answering the call when there is none; false then. */
bool bh_backend_need(struct bh_app *app, struct bh_call *call, struct bh_found *ret_found);

/* Answers with the job object, or 404. */
void bh_backend_answer_job(struct bh_app *app, struct bh_call *call, int status,
                           const char *id_or_name);

/* Per subject; fill their members of app->backend. */
void bh_backend_init_launch(struct bh_app *app);
void bh_backend_init_control(struct bh_app *app);
void bh_backend_init_results(struct bh_app *app);
void bh_backend_init_history(struct bh_app *app);
void bh_backend_init_server(struct bh_app *app);

/* Host memory and what live jobs make of it; charged needs bh_jobs_count entries. */
void bh_backend_host(struct bh_app *app, struct bh_host_view *ret_view,
                     struct bh_charged_view *ret_charged);
/* Publishes the host event. */
void bh_backend_publish_host(struct bh_app *app);

#endif
