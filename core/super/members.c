#include "core/super/members.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHILDREN_AT_ONCE 4096

void bh_members_init(struct bh_members *members, const struct bh_platform *os,
                     struct bh_notes *notes, struct bh_charge_tree *tree)
{
    members->os = os;
    members->notes = notes;
    members->tree = tree;
}

/* ---- index by process number: open addressing, rebuilt around a removal -----------------------
 */

static size_t slot_of(int pid)
{
    return ((uint32_t)pid * 2654435761u) >> 19 & (BH_MEMBERS_INDEX - 1);
}

static void index_add(struct bh_members *members, size_t position)
{
    size_t slot = slot_of(members->items[position].proc.pid);
    while (members->index[slot])
        slot = (slot + 1) & (BH_MEMBERS_INDEX - 1);
    members->index[slot] = (uint16_t)(position + 1);
}

static void index_rebuild(struct bh_members *members)
{
    memset(members->index, 0, sizeof members->index);
    for (size_t i = 0; i < members->count; i++)
        index_add(members, i);
}

struct bh_member *bh_members_find(struct bh_members *members, int pid)
{
    for (size_t slot = slot_of(pid); members->index[slot];
         slot = (slot + 1) & (BH_MEMBERS_INDEX - 1)) {
        struct bh_member *member = &members->items[members->index[slot] - 1];
        if (member->proc.pid == pid)
            return member;
    }
    return NULL;
}

/* ---- evidence ---------------------------------------------------------------------------------
 */

static void note_member(struct bh_members *members, const struct bh_member *member,
                        enum bh_record_kind kind, enum bh_member_event event,
                        const struct bh_reaped *reaped)
{
    struct bh_record record = bh_notes_begin(members->notes, kind);
    record.member.event = event;
    record.member.pid = member->proc.pid;
    record.member.start_token = member->proc.start_token;
    (void)snprintf(record.member.basename, sizeof record.member.basename, "%s", member->name);
    record.member.exit_status = reaped ? reaped->wait_status : -1;
    record.member.max_rss_bytes = reaped ? reaped->max_rss_bytes : 0;
    bh_notes_put(members->notes, &record);
}

/* Sticky, and said once per process: who left the session has left the group as well. */
static void note_escape(struct bh_members *members, struct bh_member *member, bool group,
                        bool session)
{
    bool first = !member->left_group && !member->left_session;
    member->left_group = member->left_group || group;
    member->left_session = member->left_session || session;
    if (!first || (!group && !session))
        return;
    members->escaped_count++;
    note_member(members, member, BH_RECORD_ESCAPE,
                session ? BH_MEMBER_LEFT_SESSION : BH_MEMBER_LEFT_GROUP, NULL);
}

static void take_facts(struct bh_members *members, struct bh_member *member,
                       const struct bh_proc_facts *facts)
{
    member->charge.minflt = facts->minflt;
    member->zombie = facts->state == 'Z' && facts->threads <= 1;
    note_escape(members, member, facts->group > 0 && facts->group != members->root_group,
                facts->session > 0 && facts->session != members->root_session);
    member->group = facts->group;
    member->session = facts->session;
    if (facts->parent_pid != member->parent_pid) {
        bool first = !member->reparented;
        member->reparented = true;
        member->parent_pid = facts->parent_pid;
        if (first)
            note_member(members, member, BH_RECORD_MEMBER, BH_MEMBER_REPARENTED, NULL);
    }
    /* who is exiting has no memory image any more: that is no new one */
    if (facts->image_token != member->image_token && !member->zombie && !facts->exiting) {
        member->image_token = facts->image_token;
        member->borrows_memory = false;
        /* what it shared with its relatives falls to them, as if it had died */
        bh_charge_member_died(members->tree, &member->charge);
        bh_charge_member_exec(&member->charge);
        members->os->proc_name(members->os->self, &member->proc, member->name, sizeof member->name);
        members->changed = true;
        members->losses++;
        note_member(members, member, BH_RECORD_MEMBER, BH_MEMBER_EXEC, NULL);
    }
}

void bh_members_refresh(struct bh_members *members, struct bh_member *member)
{
    struct bh_proc_facts facts;
    if (members->os->proc_facts(members->os->self, &member->proc, &facts) == BH_OK)
        take_facts(members, member, &facts);
}

/* ---- coming and going -------------------------------------------------------------------------
 */

static bool is_borrowing(struct bh_members *members, const struct bh_proc *proc,
                         const struct bh_proc_facts *facts)
{
    const struct bh_member *parent = bh_members_find(members, facts->parent_pid);
    return parent && parent->image_token == facts->image_token &&
           members->os->proc_same_memory(members->os->self, &parent->proc, proc) == 1;
}

static int insert(struct bh_members *members, const struct bh_proc *proc,
                  const struct bh_proc_facts *facts)
{
    struct bh_member *member = &members->items[members->count];
    memset(member, 0, sizeof *member);
    member->proc = *proc;
    member->parent_pid = facts->parent_pid;
    member->image_token = facts->image_token;
    member->rest_due = true;
    member->seen = true;
    member->borrows_memory = is_borrowing(members, proc, facts);
    const struct bh_member *parent = bh_members_find(members, facts->parent_pid);
    member->parent_minflt = parent ? parent->charge.minflt : 0;
    members->os->proc_name(members->os->self, proc, member->name, sizeof member->name);
    index_add(members, members->count++);
    members->changed = true;
    members->arrivals++;
    note_member(members, member, BH_RECORD_MEMBER, BH_MEMBER_CAME, NULL);
    take_facts(members, member, facts);
    if (facts->parent_pid == getpid() && proc->pid != members->root_pid) {
        member->reparented = true; /* before any look found it where it was born */
        note_member(members, member, BH_RECORD_MEMBER, BH_MEMBER_REPARENTED, NULL);
    }
    return 1;
}

/* Our descendants have a member or ourselves as parent. A stranger that took the number of a child
 * that ended between the listing and the opening has not. */
static bool is_descendant(struct bh_members *members, const struct bh_proc_facts *facts)
{
    return facts->parent_pid == getpid() || bh_members_find(members, facts->parent_pid);
}

static bool is_foreign(const struct bh_members *members, int pid, uint64_t start_token)
{
    for (size_t i = 0; i < members->foreign_count; i++) {
        if (members->foreign[i].pid == pid &&
            (!start_token || members->foreign[i].start_token == start_token))
            return true;
    }
    return false;
}

void bh_members_note_foreign(struct bh_members *members)
{
    int pids[BH_FOREIGN_MAX];
    size_t count = 0;
    (void)members->os->own_children(members->os->self, pids, BH_FOREIGN_MAX, &count);
    for (size_t i = 0; i < count; i++) {
        struct bh_proc proc;
        struct bh_proc_facts facts;
        if (members->os->proc_open(members->os->self, pids[i], &proc, &facts) < 0)
            continue;
        members->foreign[members->foreign_count].pid = pids[i];
        members->foreign[members->foreign_count++].start_token = proc.start_token;
        members->os->proc_close(members->os->self, &proc);
    }
}

/* 1 came in, 0 not (gone again, a stranger), < 0 the total is incomplete. */
static int admit(struct bh_members *members, int pid)
{
    struct bh_proc proc;
    struct bh_proc_facts facts;
    /* it is told of when it is reaped; opening it costs eight system calls, and a forking tree
     * leaves thousands of them behind */
    if (members->hurried && members->os->child_ended(members->os->self, pid))
        return 0;
    if (members->count >= BH_MEMBERS_MAX)
        return BH_E_TOO_MANY_PROCESSES;
    int result = members->os->proc_open(members->os->self, pid, &proc, &facts);
    if (result == BH_E_NOT_FOUND || result == BH_E_RANGE)
        return 0;
    if (result < 0)
        return result;
    if (!is_descendant(members, &facts) || is_foreign(members, pid, proc.start_token)) {
        members->os->proc_close(members->os->self, &proc);
        return 0;
    }
    return insert(members, &proc, &facts);
}

int bh_members_set_root(struct bh_members *members, int pid)
{
    struct bh_proc proc;
    struct bh_proc_facts facts;
    int result = members->os->proc_open(members->os->self, pid, &proc, &facts);
    if (result < 0)
        return result;
    members->root_pid = pid;
    members->root_group = pid;
    members->root_session = facts.session;
    (void)insert(members, &proc, &facts);
    return BH_OK;
}

static void drop(struct bh_members *members, size_t position)
{
    struct bh_member *member = &members->items[position];
    members->os->proc_close(members->os->self, &member->proc);
    bh_charge_member_died(members->tree, &member->charge);
    size_t last = --members->count;
    if (position != last)
        members->items[position] = members->items[last];
    index_rebuild(members);
    members->changed = true;
    members->losses++;
    members->births_known = false; /* its number may be another descendant's already: look again */
}

void bh_members_gone(struct bh_members *members, size_t position)
{
    note_member(members, &members->items[position], BH_RECORD_MEMBER, BH_MEMBER_WENT, NULL);
    drop(members, position);
}

void bh_members_reaped(struct bh_members *members, const struct bh_reaped *reaped)
{
    struct bh_member *member = bh_members_find(members, reaped->pid);
    if (member) {
        note_member(members, member, BH_RECORD_MEMBER, BH_MEMBER_WENT, reaped);
        drop(members, (size_t)(member - members->items));
        return;
    }
    if (is_foreign(members, reaped->pid, 0))
        return;
    /* it came and went between two looks: what is known of it is its number and its peak */
    struct bh_member stranger;
    memset(&stranger, 0, sizeof stranger);
    stranger.proc.pid = reaped->pid;
    note_member(members, &stranger, BH_RECORD_MEMBER, BH_MEMBER_CAME, NULL);
    note_member(members, &stranger, BH_RECORD_MEMBER, BH_MEMBER_WENT, reaped);
}

static void miss(struct bh_members *members, int error)
{
    members->incomplete = true;
    members->incomplete_error = error;
}

/* ---- scan -------------------------------------------------------------------------------------
 */

static size_t admit_all(struct bh_members *members, const int *pids, size_t count)
{
    size_t newcomers = 0;
    for (size_t i = 0; i < count; i++) {
        struct bh_member *known = bh_members_find(members, pids[i]);
        if (known) {
            known->seen = true;
            continue;
        }
        int result = admit(members, pids[i]);
        if (result < 0)
            miss(members, result);
        else
            newcomers += (size_t)result;
    }
    return newcomers;
}

static bool has_run(struct bh_members *members, struct bh_member *member)
{
    uint64_t cpu_ns = 0;
    if (members->os->proc_cpu_ns(members->os->self, &member->proc, &cpu_ns) < 0)
        return true;
    bool ran = cpu_ns != member->listed_cpu_ns;
    member->listed_cpu_ns = cpu_ns;
    return ran;
}

static size_t scan_member(struct bh_members *members, size_t position, enum bh_relist relist)
{
    static int pids[CHILDREN_AT_ONCE]; /* single-threaded; too large for the stack */
    struct bh_member *member = &members->items[position];
    size_t count = 0;
    bool list = relist == BH_RELIST_ALL || (relist == BH_RELIST_RAN && has_run(members, member));
    int result = members->os->proc_children(members->os->self, &member->proc, list, pids,
                                            sizeof pids / sizeof pids[0], &count);
    if (result == BH_E_NOT_FOUND)
        return 0; /* gone: its children came to us */
    if (result < 0)
        miss(members, result == BH_E_TOO_LONG ? BH_E_TOO_MANY_PROCESSES : result);
    if (result < 0 && result != BH_E_TOO_LONG)
        return 0;
    return admit_all(members, pids, count);
}

static size_t scan_own(struct bh_members *members)
{
    static int pids[CHILDREN_AT_ONCE];
    size_t count = 0;
    int result =
        members->os->own_children(members->os->self, pids, sizeof pids / sizeof pids[0], &count);
    if (result < 0)
        miss(members, result == BH_E_TOO_LONG ? BH_E_TOO_MANY_PROCESSES : result);
    if (result < 0 && result != BH_E_TOO_LONG)
        return 0;
    return admit_all(members, pids, count);
}

/* Whether the group's list and our own children are all known: then nobody was born in the tree
 * since the last look, whoever was born elsewhere on the host. A member that was moved out of the
 * group can hide its children from this; the full look once a second does not use it. */
static bool is_group_known(struct bh_members *members)
{
    static int pids[CHILDREN_AT_ONCE];
    size_t count = 0;
    if (!members->cgroup || members->os->cgroup_members(members->os->self, members->cgroup, pids,
                                                        CHILDREN_AT_ONCE, &count) != BH_OK)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!bh_members_find(members, pids[i]))
            return false;
    }
    return true;
}

size_t bh_members_scan(struct bh_members *members, bool force, enum bh_relist relist)
{
    uint64_t births = 0;
    bool births_known = members->os->births(members->os->self, &births) == BH_OK;
    bool nothing_born = births_known && members->births_known && births == members->births;
    if (nothing_born && !force && !members->incomplete)
        return 0;
    if (!force && !members->incomplete && members->births_known && is_group_known(members) &&
        scan_own(members) == 0) {
        members->births = births;
        return 0;
    }
    members->incomplete = false;
    /* members first, ourselves last: who moves to us while we look is then still seen. Newcomers
     * are appended, so this pass visits them too. */
    size_t newcomers = 0;
    size_t visited = 0;
    do {
        while (visited < members->count)
            newcomers += scan_member(members, visited++, relist);
        newcomers += scan_own(members);
    } while (visited < members->count);
    members->births = births;
    members->births_known = births_known && newcomers == 0;
    return newcomers;
}

size_t bh_members_live(const struct bh_members *members)
{
    size_t live = 0;
    for (size_t i = 0; i < members->count; i++)
        live += !members->items[i].zombie;
    return live;
}

size_t bh_members_export(const struct bh_members *members, struct bh_queue_member *ret_members,
                         size_t capacity)
{
    size_t count = members->count < capacity ? members->count : capacity;
    for (size_t i = 0; i < count; i++) {
        ret_members[i] = (struct bh_queue_member){
            .start_token = members->items[i].proc.start_token,
            .pid = (uint32_t)members->items[i].proc.pid,
            .flags = members->items[i].zombie ? 0 : BH_QUEUE_MEMBER_LIVE,
            .identity = members->items[i].proc.identity,
        };
    }
    return count;
}
