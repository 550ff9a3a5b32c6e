/* The one contract with the operating system: what the supervisor's decider asks of it. linux.c
 * answers it for Linux, fake.c from a script (unit tests), unsupported.c by refusing. Everything
 * the loop does to the outside goes through struct bh_platform; a test hands in the fake and drives
 * the whole loop with it.
 *
 * Single-threaded. Nothing here allocates, nothing blocks except wait. Descriptors inside struct
 * bh_proc belong to it and go with proc_close. int results are BH_OK or an error; the special ones
 * are named. Units: bytes, ns. */
#ifndef BH_PLATFORM_PLATFORM_H
#define BH_PLATFORM_PLATFORM_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/model/charge.h"

/* ---- one process we watch -------------------------------------------------------------------- */

#define BH_PROC_COMM_SIZE 32
#define BH_PROC_THREADS   8 /* kept `children` descriptors; more threads are opened each time */

/* A handle. pid, start_token and identity never change after proc_open; the rest is the system's.
 */
struct bh_proc {
    int pid;
    uint64_t start_token; /* start time in ticks since boot: (boot, pid, token) is for people */
    uint64_t identity;    /* pidfd inode where the kernel has pidfs, else 0 */
    int pidfd;
    int dir_fd; /* /proc/PID */
    int statm_fd, status_fd, stat_fd, task_fd;
    int live_tid;     /* a thread to read instead of an exited leader, 0 = the leader lives */
    unsigned threads; /* at the last listing */
    unsigned children_count; /* used entries of: */
    int children_tids[BH_PROC_THREADS];
    int children_fds[BH_PROC_THREADS];
};

struct bh_proc_facts {
    int parent_pid, group, session;
    uint64_t minflt;
    unsigned threads;
    uint64_t image_token; /* changes with exec, survives fork: tells forked from exec'ed */
    bool exiting;         /* on its way out: its memory image is being taken down or is gone */
    char state;           /* as /proc has it: R S D T Z X */
    char comm[BH_PROC_COMM_SIZE];
};

struct bh_proc_fast {
    uint64_t anon_bytes;   /* resident - shared */
    uint64_t shared_bytes; /* file and shmem pages: only its growth says something */
};

struct bh_proc_rest {
    uint64_t anon_bytes;
    uint64_t rest_bytes;     /* RssShmem + VmSwap + HugetlbPages + VmPTE */
    uint64_t shmem_bytes;    /* of these: RssShmem */
    uint64_t huge_bytes;     /* of these: HugetlbPages */
    uint64_t caught_signals; /* SigCgt, bit n - 1 = signal n */
};

/* ---- launch ---------------------------------------------------------------------------------- */

struct bh_launch {
    const char *const *argv;
    const char *const *environment; /* complete, NULL-terminated */
    const char *path;               /* PATH of the job's environment, for argv[0] without a slash */
    const char *cwd;                /* NULL = ours */
    int stdin_fd, stdout_fd, stderr_fd; /* -1 = leave ours */
    int keep_fd, keep_as;     /* one more descriptor for the job and its number there, -1 = none */
    int parent_death_signal;  /* 0 = none */
    int terminal_fd;          /* >= 0: the job's group becomes its foreground group */
    int oom_score_adj;        /* of the job, 1000 */
    const char *cgroup_procs; /* absolute path of a cgroup.procs to enter, NULL = none */
    uint64_t nofile_soft, nofile_hard; /* limits to give back to the job, 0 = as they are */
    int nice_value;
    bool set_nice;
    unsigned umask;
    bool set_umask;
};

/* ---- a control group of our own (version 2) ---------------------------------------------------
 */

#define BH_CGROUP_HUGE_SIZES 8 /* x86-64 has 2 sizes of huge pages, arm64 up to 4 */

/* Each feature is detected for itself: a hybrid host offers kill without the memory controller. */
struct bh_cgroup {
    bool made;
    bool memory, kill, freeze;          /* controller; cgroup.kill; cgroup.freeze */
    bool limits;                        /* it took the limits of the wish */
    bool high;                          /* has memory.high, and all that a brake is judged by */
    bool huge;                          /* cgroup_charge has the huge pages of the pool in it */
    int dir_fd;                         /* the rest only while made */
    int stat_fd, swap_fd;               /* memory.stat, memory.swap.current; -1 without */
    int current_fd, events_fd;          /* memory.current, memory.events; -1 without */
    int huge_fds[BH_CGROUP_HUGE_SIZES]; /* hugetlb.SIZE.current of each size */
    unsigned huge_count;
    int procs_fd;          /* cgroup.procs, for reading */
    char path[1024];       /* absolute */
    char procs_path[1088]; /* absolute, of cgroup.procs: for struct bh_launch */
};

struct bh_cgroup_wish {
    const char *run_id;
    uint64_t max_bytes;  /* memory.max, 0 = none */
    uint64_t high_bytes; /* memory.high, 0 = none */
};

/* Both only ever grow. highs: how often memory.high was reached, be it by page cache alone. */
struct bh_cgroup_events {
    uint64_t oom_kills, highs;
};

struct bh_cgroup_charge {
    uint64_t bytes; /* anon + shmem + page tables + swap, and huge pages where `huge` says so */
    uint64_t shmem_bytes; /* of these: shmem */
    uint64_t held_bytes; /* memory.current less what the kernel can take back, plus swap; 0 where it
                            was not asked for */
};

/* ---- reaped children ------------------------------------------------------------------------- */

struct bh_reaped {
    int pid;
    int wait_status; /* as waitpid's */
    uint64_t max_rss_bytes;
};

/* ---- the host -------------------------------------------------------------------------------- */

struct bh_platform_host {
    char os[32], kernel[96], machine[32], boot_id[40];
    char metric[96], metric_note[160];
    uint64_t page_bytes, memory_bytes, available_bytes;
    uint64_t outer_limit_bytes; /* memory.max (v2) or limit_in_bytes (v1) above us, 0 none */
    char cgroup_reason[96];     /* why no control group of our own */
    bool pidfd, pidfs, children_files, rollup;
};

struct bh_platform_memory {
    uint64_t total_bytes, available_bytes;
    uint32_t pressure_some_x100; /* PSI some avg10, 0 when unknown */
};

/* ---- waiting --------------------------------------------------------------------------------- */

/* Signals the decider wants to hear of come out of wait as bits (bit n - 1 = signal n); at the same
 * time they are kept from interrupting anything else. */
struct bh_wait {
    struct pollfd *fds;
    size_t count;
    struct bh_mono until;
    uint64_t ret_signals;
};

/* ---- the contract ---------------------------------------------------------------------------- */

struct bh_platform {
    void *self; /* first argument of every function */

    struct bh_mono (*now)(void *self);
    struct bh_wall (*wall)(void *self);
    int (*host)(void *self, struct bh_platform_host *ret_host);
    int (*memory)(void *self, struct bh_platform_memory *ret_memory);
    /* How often the kernel killed for want of memory since boot, on the whole host; 0 unknown. */
    uint64_t (*oom_kills)(void *self);
    /* CPU time this process has used so far. */
    uint64_t (*cpu_ns)(void *self);

    /* Before the helpers are forked: nothing. After: adopt orphans (ret_subreaper), block and
     * collect the decider's signals, raise own limits, protect from the OOM killer, lock memory. */
    int (*become_reaper)(void *self, bool *ret_subreaper);
    int (*collect_signals)(void *self);
    bool (*lock_memory)(void *self);
    bool (*raise_priority)(void *self);

    /* Forks and executes. BH_E_LAUNCH_NOT_FOUND, LAUNCH_NOT_EXECUTABLE, LAUNCH_TOO_LONG,
     * LAUNCH_CWD, LAUNCH_FAILED; on success the exec has happened. */
    int (*launch)(void *self, const struct bh_launch *launch, int *ret_pid, struct bh_diag *diag);

    /* BH_E_NOT_FOUND: gone meanwhile. BH_E_RANGE: pid <= 1 or ourselves. BH_E_NOSPACE, NOMEM: no
     * descriptor or memory, the total is incomplete. ret_proc is untouched on failure. */
    int (*proc_open)(void *self, int pid, struct bh_proc *ret_proc,
                     struct bh_proc_facts *ret_facts);
    void (*proc_close)(void *self, struct bh_proc *proc);
    /* BH_E_NOT_FOUND: it is gone (reaped). */
    int (*proc_facts)(void *self, struct bh_proc *proc, struct bh_proc_facts *ret_facts);
    /* BH_E_NOT_FOUND: gone; BH_E_CLOSED: a zombie, holds nothing; BH_E_BUSY: exiting, what it held
     * is being freed and cannot be read any more; BH_E_AGAIN: unusable zero. */
    int (*proc_fast)(void *self, struct bh_proc *proc, struct bh_proc_fast *ret_fast);
    int (*proc_rest)(void *self, struct bh_proc *proc, struct bh_proc_rest *ret_rest);
    /* CPU time of all its threads so far, also of those that ended; of a running one as of the last
     * clock tick. By number: a later process of that number answers with a time of its own. */
    int (*proc_cpu_ns)(void *self, const struct bh_proc *proc, uint64_t *ret_ns);
    /* BH_E_PERMISSION: not readable (foreign or not dumpable). */
    int (*proc_rollup)(void *self, struct bh_proc *proc, struct bh_charge_rollup *ret_rollup);
    /* Children of all its threads; relist: look for replaced threads even if their number is the
     * same. BH_E_TOO_LONG: more than capacity, the first ones are given. BH_E_NOT_FOUND: gone. */
    int (*proc_children)(void *self, struct bh_proc *proc, bool relist, int *ret_pids,
                         size_t capacity, size_t *ret_count);
    /* Whether both run in one memory image (vfork, CLONE_VM): 1, 0, or an error when unknown. */
    int (*proc_same_memory)(void *self, const struct bh_proc *left, const struct bh_proc *right);
    /* Basename of its executable, or of what the kernel calls it. */
    void (*proc_name)(void *self, const struct bh_proc *proc, char *ret_name, size_t size);
    /* Signals exactly this process, never a later one of its number. BH_E_NOT_FOUND,
     * BH_E_PERMISSION. */
    int (*proc_signal)(void *self, const struct bh_proc *proc, int signal);

    int (*own_children)(void *self, int *ret_pids, size_t capacity, size_t *ret_count);
    /* A number that changes when processes were created on this host: equal = nothing was born
     * (unless numbers are forced to repeat). BH_E_UNSUPPORTED: always look. */
    int (*births)(void *self, uint64_t *ret_token);
    /* 1 and a reaped child, 0 none has ended, BH_E_NOT_FOUND: we have no child at all. */
    int (*reap)(void *self, struct bh_reaped *ret_reaped);
    /* Whether this pid is a child of ours that has ended and waits for reap. */
    bool (*child_ended)(void *self, int pid);
    /* Whether this child is stopped by a signal since the last call. */
    bool (*child_stopped)(void *self, int pid);
    int (*signal_group)(void *self, int group, int signal);

    /* Makes a group below our own, where that is allowed. BH_OK also when there is none: ret_cgroup
     * says what was had, ret_reason (may stay "") why not all. */
    int (*cgroup_make)(void *self, const struct bh_cgroup_wish *wish, struct bh_cgroup *ret_cgroup,
                       char *ret_reason, size_t reason_size);
    int (*cgroup_limit)(void *self, const struct bh_cgroup *cgroup, uint64_t max_bytes,
                        uint64_t high_bytes);
    /* Shared pages once. held: whether held_bytes is wanted. */
    int (*cgroup_charge)(void *self, const struct bh_cgroup *cgroup, bool held,
                         struct bh_cgroup_charge *ret_charge);
    int (*cgroup_events)(void *self, const struct bh_cgroup *cgroup,
                         struct bh_cgroup_events *ret_events);
    /* Processes in the group, as proc_children. */
    int (*cgroup_members)(void *self, const struct bh_cgroup *cgroup, int *ret_pids,
                          size_t capacity, size_t *ret_count);
    /* Whether this process is in the group or in one below it: 1, 0, or an error when unknown. */
    int (*cgroup_has)(void *self, const struct bh_cgroup *cgroup, const struct bh_proc *proc);
    int (*cgroup_kill)(void *self, const struct bh_cgroup *cgroup);
    /* 1, 0, or an error when unknown. */
    int (*cgroup_populated)(void *self, const struct bh_cgroup *cgroup);
    void (*cgroup_remove)(void *self, struct bh_cgroup *cgroup);

    /* Returns at until, at a signal or when a descriptor is ready. */
    int (*wait)(void *self, struct bh_wait *wait);
};

/* The machine we run on; static. */
const struct bh_platform *bh_platform_host(void);

/* ---- outside the loop: helpers and adopt ----------------------------------------------------- */

/* Sends the signal to pid if it still is the process that started with this token (and has this
 * pidfd inode, where identity is not 0). BH_E_NOT_FOUND otherwise. Never for pid <= 1. */
int bh_platform_signal_exact(int pid, uint64_t start_token, uint64_t identity, int signal);
/* Whether that process still exists and is no zombie. */
bool bh_platform_alive_exact(int pid, uint64_t start_token, uint64_t identity);
/* Frees the memory of a killed process without waiting for its turn on a CPU. BH_OK also when it
 * was gone already. */
int bh_platform_mrelease(int pid, uint64_t start_token);
/* Whether that process maps a file whose name (without its folder) begins so: 1, 0, or an error
 * (BH_E_NOT_FOUND gone, BH_E_PERMISSION). May wait for the process's own locks: not for the loop.
 */
int bh_platform_maps_file(int pid, uint64_t start_token, const char *start);
/* Processes of a group, zombies too, wherever they are. BH_E_TOO_LONG: the first ones are given. */
int bh_platform_group_members(int group, int *ret_pids, size_t capacity, size_t *ret_count);
/* Start token of a live process; BH_E_NOT_FOUND. */
int bh_platform_start_token(int pid, uint64_t *ret_token);
/* Closes every open descriptor from first to last, or has it closed at the next exec. After a fork,
 * in the child. */
void bh_platform_close_range(int first, int last, bool at_exec);
int bh_platform_boot_id(char *ret_text, size_t size);
/* Absolute path of our own executable. */
int bh_platform_own_path(char *ret_path, size_t size);
int bh_platform_host_memory(struct bh_platform_memory *ret_memory);
/* A short path that leads to the directory behind this descriptor, for calls that want paths. */
int bh_platform_dir_path(int dirfd, char *ret_path, size_t size);
/* Asks the kernel to tell who writes to a socket, and reads with that: the count, 0 at the end,
 * BH_E_AGAIN when there is nothing now. ret_pid: 0 = unknown. */
int bh_platform_want_sender(int fd);
int bh_platform_read_sender(int fd, void *ret_data, size_t size, int *ret_pid);
/* The uid on the other end of a unix socket. */
int bh_platform_peer_uid(int fd, unsigned *ret_uid);
/* Frees the file's blocks in [0, length) and keeps its size: offsets stay. BH_E_UNSUPPORTED. */
int bh_platform_punch(int fd, uint64_t length);
/* Whether memory behind this directory is RAM (tmpfs), not a disk. */
bool bh_platform_is_tmpfs(int dirfd);
/* Folder for runtime files: XDG_RUNTIME_DIR/bulkhead or /dev/shm/bulkhead-<uid>; "" when none. */
int bh_platform_runtime_base(char *ret_path, size_t size);

#endif
