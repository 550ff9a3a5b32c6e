/* A run: what the decider, its helpers (scribe, standby, mrelease) and `adopt` all know. Filled by
 * boot.c (run, start) or rundir.c (adopt) before anything is forked; helpers inherit it by fork, as
 * it is, and close what is not theirs. One per process, never shared.
 *
 * Order at boot (boot.c), which is what everyone may rely on:
 *   1. run directory opened (created in the foreground), `lock` taken with flock: the descriptor
 *      is inherited by the helpers, so the lock is free only when all of us are gone
 *   2. runtime folder and its `rings` made, `runtime` written into the run directory
 *   3. queue.bin created; records CONFIG and HOST stored
 *   4. helpers forked twice, so that they are nobody's children: bh_scribe_main(run) (it forks its
 *      standby itself), then the mrelease helper. Each has its own session, SIGINT, SIGTERM,
 * SIGHUP, SIGQUIT, SIGTSTP and SIGPIPE ignored, stdio on /dev/null, an empty signal mask
 *   5. subreaper flag, locked memory, launch: record LAUNCHED, or OUTCOME with a launch kind
 *   6. the loop; after the tree is empty: PEAK_MEMBER…, ADVISORY, EMPTY, OUTCOME, then
 *      bh_queue_set_final and bh_queue_wake
 *   7. the decider waits for report_done (or report_failed, or EOF on scribe_alive_fd), sends
 *      EV_FINAL, LOCK_UN, exits. The scribe unlocks as well once the report is done and
 *      decider_alive_fd is at EOF, then goes on with the readings of reclaim.h
 *
 * A decider that dies before `final` was set: decider_alive_fd is at EOF, the scribe finishes the
 * run (finish.h). All descriptors are O_CLOEXEC; the job gets none of them. */
#ifndef BH_SUPER_SUPER_H
#define BH_SUPER_SUPER_H

#include <limits.h>

#include "core/model/job.h"
#include "core/model/policy.h"
#include "core/wire/queue.h"

#define BH_RUN_LOCK_NAME    "lock"
#define BH_RUN_RUNTIME_NAME "runtime"
#define BH_RUN_SOCKET_NAME  "ctl.sock"
#define BH_RUN_EVLOG_NAME   "events.bhe"
#define BH_RUN_REPORT_NAME  "report.json"
#define BH_RUN_RECLAIM_NAME "reclamation.json"
#define BH_RUN_OUT_NAME     "out.log"
#define BH_RUN_ERR_NAME     "err.log"
#define BH_RUN_RINGS_NAME   "rings"
#define BH_RUN_CGROUP_NAME  "cgroup" /* in the runtime folder: path of the job's control group */

struct bh_run {
    struct bh_job_spec *spec; /* resolved; lives as long as the run */
    struct bh_anchor anchor;  /* the run's one clock reading; also in queue.bin */
    char id[BH_JOB_ID_SIZE];  /* = spec->id */
    char path[PATH_MAX];      /* absolute, of the run directory; never printed or logged */
    char runtime_path[PATH_MAX];
    char boot_id[40];       /* of `runtime`; in adopt it may differ from the machine's */
    int run_fd;             /* run directory */
    int runtime_fd;         /* runtime folder, -1 in adopt after a reboot */
    int rings_fd;           /* its rings, -1 without */
    int lock_fd;            /* holds the flock */
    struct bh_queue *queue; /* NULL in adopt when queue.bin is gone */
    bool foreground;        /* run or observe: stdio is the caller's, no ctl.sock, no logs */
    bool temporary;         /* run directory goes away at the end: no reclamation readings */
    bool runtime_on_disk;   /* no tmpfs found: the report says so */
    int decider_pid;
    int decider_alive_fd; /* helpers: readable end, EOF = the decider is gone; decider: -1 */
    int decider_token_fd; /* decider: the write end, held until it dies; helpers: closed, -1 */
    int scribe_alive_fd;  /* decider: readable end, EOF = no scribe is left; helpers: -1 */
    int scribe_token_fd;  /* scribe and standby: the write end; a byte from each scribe that has a
                           * standby; decider: -1 */
    int ready_fd; /* decider of `start`: where the verdict of the launch goes; helpers: -1 */
};

/* Wires a zeroed run: descriptors -1. */
void bh_run_init(struct bh_run *run);
/* Closes what is open; the queue too. The spec is the caller's. */
void bh_run_done(struct bh_run *run);

/* The policy's configuration of a spec; used by the decider and by whoever replays a journal. */
void bh_run_policy_config(const struct bh_job_spec *spec, struct bh_policy_config *ret_config);

/* ---- rundir.c ------------------------------------------------------------------------------- */

/* Opens an existing run directory with its spec.bin (allocates run->spec: bh_spec_file_free) and
 * takes the lock. BH_E_BUSY: someone of ours still lives. */
int bh_rundir_open(const char *path, struct bh_run *run, struct bh_diag *diag);
/* Makes a run directory (NULL: a temporary one below the runtime place) and takes the lock. */
int bh_rundir_create(const char *path, struct bh_run *run, struct bh_diag *diag);
/* BH_E_EXISTS when the directory holds a finished or broken-off run: nothing of it is overwritten.
 */
int bh_rundir_refuse_used(const struct bh_run *run, struct bh_diag *diag);
/* Makes the runtime folder, rings, and `runtime` in the run directory. */
int bh_rundir_make_runtime(struct bh_run *run, struct bh_diag *diag);
/* adopt: reads `runtime`, opens what is still there of it (runtime_fd, rings_fd, queue stay -1 and
 * NULL otherwise; that is no error). */
int bh_rundir_find_runtime(struct bh_run *run, struct bh_diag *diag);
/* Removes runtime folder and, for a temporary one, the run directory. At the very end. */
void bh_rundir_remove_runtime(struct bh_run *run);

/* ---- logs.c: called by the scribe about once a second, and once at the end ------------------- */

/* Punches the oldest blocks of out.log and err.log beyond spec->log_max_bytes; offsets stay. */
void bh_logs_trim(const struct bh_run *run);

#endif
