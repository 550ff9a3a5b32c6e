/* Who belongs to the job: a table of open process handles, fed from the children files of members,
 * from our own children (orphans land on the subreaper) and from reaping. Used by the loop only.
 *
 * A process enters when its parent is a member or ourselves and is checked to be one process from
 * then on (platform.h); it leaves when it is reaped or gone. Nothing is ever found by its number
 * alone. Static size; a full table or a missing descriptor makes the total incomplete, never
 * smaller. */
#ifndef BH_SUPER_MEMBERS_H
#define BH_SUPER_MEMBERS_H

#include "core/model/charge.h"
#include "core/platform/platform.h"
#include "core/super/notes.h"

#define BH_MEMBERS_MAX   BH_QUEUE_MEMBERS
#define BH_FOREIGN_MAX   64   /* children that were ours before the job was */
#define BH_MEMBERS_INDEX 8192 /* slots of the number index, a power of two, 2 x MAX */

struct bh_member {
    struct bh_proc proc;
    struct bh_charge_member charge;
    int parent_pid, group, session;
    uint64_t image_token;
    uint64_t parent_minflt;               /* the parent's, as known before this one was seen */
    uint64_t shared_bytes;                /* of the last fast reading */
    uint64_t shmem_bytes;                 /* of the last status reading */
    uint64_t huge_bytes;                  /* likewise: huge pages of the pool */
    uint64_t cpu_ns;                      /* its CPU clock just before the last fast reading */
    uint64_t listed_cpu_ns;               /* … before its threads were listed */
    struct bh_mono read_at;               /* last fast reading */
    bool stands;                          /* its clock stood since that reading */
    struct bh_mono rest_at;               /* last reading of status and facts */
    uint64_t rest_bytes, rest_anon_bytes; /* what status and the quick reading said then */
    bool has_reading;                     /* a usable fast reading exists */
    bool zombie;                          /* holds nothing, waits to be reaped by its parent */
    bool left_group, left_session, reparented;
    bool outside;        /* moved out of the job's control group, as of the last look */
    bool borrows_memory; /* runs in its parent's memory until it execs (vfork) */
    bool has_relatives;  /* another member has the same image: they can share pages */
    bool rest_due;
    bool kill_sent;
    bool seen; /* by the scan under way */
    char name[BH_BASENAME_SIZE];
};

struct bh_members {
    const struct bh_platform *os;
    struct bh_notes *notes;
    const struct bh_cgroup *cgroup; /* where there is one: lists newcomers in one reading */
    int root_pid, root_group, root_session;
    struct bh_member items[BH_MEMBERS_MAX];
    size_t count;
    uint16_t index[BH_MEMBERS_INDEX]; /* 1 + position, 0 = free */
    uint64_t births;                  /* token of the last scan */
    bool births_known;
    bool hurried;    /* everybody is being killed: who has ended already need not be opened */
    bool incomplete; /* somebody could not be opened or listed at the last scan, and why: */
    int incomplete_error;
    bool changed; /* somebody came or went since it was cleared */
    uint64_t arrivals;
    uint64_t losses; /* how often somebody went or executed: what it shared fell to others */
    uint32_t escaped_count;
    struct {
        int pid;
        uint64_t start_token;
    } foreign[BH_FOREIGN_MAX];
    size_t foreign_count;
    struct bh_charge_tree *tree; /* told when a member dies */
};

/* The table comes zeroed. */
void bh_members_init(struct bh_members *members, const struct bh_platform *os,
                     struct bh_notes *notes, struct bh_charge_tree *tree);
/* Before launch: whoever is our child already (of the program that executed us) is none of the
 * job's: never counted, never signalled, never waited for. */
void bh_members_note_foreign(struct bh_members *members);
/* The launched root, which becomes the first member. */
int bh_members_set_root(struct bh_members *members, int pid);

/* Whose threads are listed again, although their number is the same. */
enum bh_relist {
    BH_RELIST_CHANGED, /* nobody's */
    BH_RELIST_RAN,     /* of who used CPU time since the last listing: others made no thread. A
                          running thread's time is up to a clock tick late, so this is for routine */
    BH_RELIST_ALL,
};

/* Looks for newcomers when something was born since the last look (always when `force`), until a
 * pass finds nobody. Returns the number of newcomers. */
size_t bh_members_scan(struct bh_members *members, bool force, enum bh_relist relist);
/* A child of ours was reaped. Its member, if it was one, leaves. */
void bh_members_reaped(struct bh_members *members, const struct bh_reaped *reaped);
/* It is gone without us (its parent reaped it). */
void bh_members_gone(struct bh_members *members, size_t position);

struct bh_member *bh_members_find(struct bh_members *members, int pid);
/* Parent, group, session, image: notes what changed as evidence. */
void bh_members_refresh(struct bh_members *members, struct bh_member *member);
/* Members that hold memory or can act: neither zombie nor gone. */
size_t bh_members_live(const struct bh_members *members);
/* The table as queue.bin wants it. */
size_t bh_members_export(const struct bh_members *members, struct bh_queue_member *ret_members,
                         size_t capacity);

#endif
