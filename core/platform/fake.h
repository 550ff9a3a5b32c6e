/* A scripted machine behind struct bh_platform, for unit tests of the loop: a process table, a
 * clock that moves only while someone waits, memory that grows at a given rate, and failures on
 * demand. Processes are found by the numbers the script gives; times are ns of the fake's clock.
 * Not linked into anything that is installed but part of the library so that it cannot rot. */
#ifndef BH_PLATFORM_FAKE_H
#define BH_PLATFORM_FAKE_H

#include "core/platform/platform.h"

#define BH_FAKE_PROCESSES 4608 /* more than a supervisor has room for */
#define BH_FAKE_STEPS     64

enum bh_fake_life {
    BH_FAKE_FREE = 0,
    BH_FAKE_LIVES,
    BH_FAKE_ZOMBIE,
    BH_FAKE_GONE,
};

struct bh_fake_process {
    enum bh_fake_life life;
    int pid, parent, group, session;
    uint64_t start_token, image;
    uint64_t anon_bytes, rest_bytes, shmem_bytes, minflt;
    uint64_t huge_bytes; /* of the pool; not among rest_bytes */
    uint64_t pss_bytes;  /* answer of an exact round, */
    uint64_t private_hugetlb_bytes, shared_hugetlb_bytes;
    int64_t growth_bytes_s; /* of anon, from grows_from on */
    uint64_t grows_from_ns;
    bool sleeps; /* its CPU clock stands still, else that is the fake's own clock */
    unsigned threads;
    bool exiting;      /* memory image taken down, not a zombie yet */
    bool zero_reading; /* statm reads as zeros although it lives */
    int borrows_from;  /* pid whose memory it runs in, 0 = its own */
    /* what signals do: the wait status it ends with; 0 = nothing */
    uint64_t term_after_ns; /* ends this long after TERM (or its stop signal); UINT64_MAX never */
    bool survives_kill;     /* D state */
    uint64_t caught_signals;
    uint64_t ends_at_ns; /* scheduled end, 0 = none */
    int ends_with;       /* its wait status then */
    int signals[65];     /* how often each signal reached it */
    bool reported;       /* as reaped */
    bool left_cgroup;    /* moved out of the job's control group */
};

struct bh_fake_step {
    uint64_t at_ns;
    void (*run)(void *context);
    void *context;
};

struct bh_fake {
    struct bh_mono clock;
    uint64_t call_ns; /* the clock moves this much whenever somebody looks at it */
    uint64_t cpu_ns;
    struct bh_fake_process processes[BH_FAKE_PROCESSES];
    size_t count;
    struct bh_fake_step steps[BH_FAKE_STEPS];
    size_t step_count;
    uint64_t births;
    uint64_t pending_signals; /* to the supervisor */
    int root;                 /* the process that launch starts: set up by the script */
    int launch_error;         /* launch fails with this */
    int open_error;           /* proc_open fails with this, 0 = works */
    int signal_error;         /* proc_signal fails with this */
    int rollup_error;
    unsigned opens;                        /* of processes that were there */
    unsigned fast_readings, rest_readings; /* answered so far */
    unsigned rollups;                      /* exact readings taken */
    uint64_t rollup_cost_ns;               /* clock and CPU time of one */
    uint64_t fast_cost_ns;                 /* clock time of a quick reading */
    uint64_t stall_ns;   /* each quick reading takes this long: somebody else runs */
    unsigned calm_every; /* … but for each so many-th one */
    uint64_t jump_ns;    /* the next wait lasts this much longer: a closed lid */
    struct bh_platform_host host;
    struct bh_platform_memory memory;
    uint64_t oom_kills;
    bool cgroup_memory;    /* a control group with the memory controller can be had */
    uint64_t cgroup_bytes; /* its charge */
    uint64_t cgroup_shmem_bytes, cgroup_held_bytes;
    bool cgroup_without_huge; /* the charge has no huge pages in it */
    int cgroup_events_fd;     /* waited for as memory.events, 0 = none */
    uint64_t cgroup_max, cgroup_high;
    struct bh_cgroup_events cgroup_events;
    unsigned cgroup_kills;
};

/* Fills ret_platform with the fake's functions; both must outlive their use. */
void bh_fake_init(struct bh_fake *fake, struct bh_platform *ret_platform);
/* A live process: own group and session like its parent's, own image, 1 thread. */
struct bh_fake_process *bh_fake_add(struct bh_fake *fake, int pid, int parent);
/* The same as a fork of its parent: image and memory are the parent's. */
struct bh_fake_process *bh_fake_fork(struct bh_fake *fake, int pid, int parent);
struct bh_fake_process *bh_fake_find(struct bh_fake *fake, int pid);
/* Ends it now: children go to us, it is a zombie until its parent (or we) reap it. */
void bh_fake_end(struct bh_fake *fake, int pid, int wait_status);
void bh_fake_at(struct bh_fake *fake, uint64_t at_ns, void (*run)(void *), void *context);
uint64_t bh_fake_anon(const struct bh_fake *fake, const struct bh_fake_process *process);

#endif
