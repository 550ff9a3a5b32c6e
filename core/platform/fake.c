#include "core/platform/fake.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/platform/fake_host.h"

/* ---- the script's side ------------------------------------------------------------------------
 */

struct bh_fake_process *bh_fake_find(struct bh_fake *fake, int pid)
{
    for (size_t i = fake->count; i-- > 0;) { /* newest first: numbers may be used again */
        if (fake->processes[i].pid == pid && fake->processes[i].life != BH_FAKE_GONE)
            return &fake->processes[i];
    }
    return NULL;
}

struct bh_fake_process *bh_fake_add(struct bh_fake *fake, int pid, int parent)
{
    BH_BUG_ON(fake->count == BH_FAKE_PROCESSES);
    const struct bh_fake_process *from = bh_fake_find(fake, parent);
    struct bh_fake_process *process = &fake->processes[fake->count++];
    memset(process, 0, sizeof *process);
    process->life = BH_FAKE_LIVES;
    process->pid = pid;
    process->parent = parent;
    process->group = from ? from->group : pid;
    process->session = from ? from->session : 1;
    process->start_token = 1000 + fake->count;
    process->image = 500000 + fake->count;
    process->threads = 1;
    process->grows_from_ns = fake->clock.ns;
    fake->births++;
    return process;
}

struct bh_fake_process *bh_fake_fork(struct bh_fake *fake, int pid, int parent)
{
    struct bh_fake_process *process = bh_fake_add(fake, pid, parent);
    const struct bh_fake_process *from = bh_fake_find(fake, parent);
    BH_BUG_ON(!from);
    process->image = from->image;
    process->anon_bytes = bh_fake_anon(fake, from);
    process->rest_bytes = from->rest_bytes;
    process->shmem_bytes = from->shmem_bytes;
    process->term_after_ns = from->term_after_ns;
    return process;
}

void bh_fake_end(struct bh_fake *fake, int pid, int wait_status)
{
    struct bh_fake_process *process = bh_fake_find(fake, pid);
    if (!process || process->life != BH_FAKE_LIVES)
        return;
    process->life = BH_FAKE_ZOMBIE;
    process->ends_with = wait_status;
    for (size_t i = 0; i < fake->count; i++) {
        if (fake->processes[i].parent == pid && fake->processes[i].life != BH_FAKE_GONE)
            fake->processes[i].parent = getpid();
    }
    /* a parent of the script reaps at once; ours waits for us */
    if (process->parent != getpid())
        process->life = BH_FAKE_GONE;
    else
        fake->pending_signals |= (uint64_t)1 << (SIGCHLD - 1);
}

void bh_fake_at(struct bh_fake *fake, uint64_t at_ns, void (*run)(void *), void *context)
{
    BH_BUG_ON(fake->step_count == BH_FAKE_STEPS);
    fake->steps[fake->step_count++] = (struct bh_fake_step){at_ns, run, context};
}

uint64_t bh_fake_anon(const struct bh_fake *fake, const struct bh_fake_process *process)
{
    if (!process->growth_bytes_s || fake->clock.ns <= process->grows_from_ns)
        return process->anon_bytes;
    int64_t grown =
        (int64_t)((double)process->growth_bytes_s *
                  ((double)(fake->clock.ns - process->grows_from_ns) / (double)BH_NS_PER_S));
    int64_t bytes = (int64_t)process->anon_bytes + grown;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

/* ---- the contract's side ----------------------------------------------------------------------
 */

static struct bh_mono now(void *self)
{
    struct bh_fake *fake = self;
    fake->clock.ns += fake->call_ns;
    return fake->clock;
}

static int launch(void *self, const struct bh_launch *request, int *ret_pid, struct bh_diag *diag)
{
    struct bh_fake *fake = self;
    (void)request;
    if (fake->launch_error)
        return bh_err_set(diag, fake->launch_error, "command", "the script refuses");
    *ret_pid = fake->root;
    return BH_OK;
}

static struct bh_fake_process *of(struct bh_fake *fake, const struct bh_proc *proc)
{
    struct bh_fake_process *process = &fake->processes[proc->dir_fd];
    return process->life == BH_FAKE_GONE ? NULL : process;
}

static void tell_facts(const struct bh_fake_process *process, struct bh_proc_facts *ret_facts)
{
    *ret_facts = (struct bh_proc_facts){.parent_pid = process->parent,
                                        .group = process->group,
                                        .session = process->session,
                                        .minflt = process->minflt,
                                        .threads = process->threads,
                                        .image_token = process->image,
                                        .exiting = process->exiting,
                                        .state = process->life == BH_FAKE_ZOMBIE ? 'Z' : 'S'};
    (void)snprintf(ret_facts->comm, sizeof ret_facts->comm, "fake%d", process->pid);
}

static int proc_open(void *self, int pid, struct bh_proc *ret_proc, struct bh_proc_facts *ret_facts)
{
    struct bh_fake *fake = self;
    if (pid <= 1 || pid == getpid())
        return BH_E_RANGE;
    if (fake->open_error)
        return fake->open_error;
    const struct bh_fake_process *process = bh_fake_find(fake, pid);
    if (!process)
        return BH_E_NOT_FOUND;
    fake->opens++;
    *ret_proc = (struct bh_proc){.pid = pid,
                                 .start_token = process->start_token,
                                 .identity = process->start_token,
                                 .dir_fd = (int)(process - fake->processes)};
    tell_facts(process, ret_facts);
    return BH_OK;
}

static void proc_close(void *self, struct bh_proc *proc)
{
    (void)self;
    (void)proc;
}

static int proc_facts(void *self, struct bh_proc *proc, struct bh_proc_facts *ret_facts)
{
    const struct bh_fake_process *process = of(self, proc);
    if (!process)
        return BH_E_NOT_FOUND;
    tell_facts(process, ret_facts);
    return BH_OK;
}

static int proc_fast(void *self, struct bh_proc *proc, struct bh_proc_fast *ret_fast)
{
    struct bh_fake *fake = self;
    const struct bh_fake_process *process = of(fake, proc);
    if (!process)
        return BH_E_NOT_FOUND;
    if (process->life == BH_FAKE_ZOMBIE)
        return BH_E_CLOSED;
    if (process->exiting)
        return BH_E_BUSY;
    if (process->zero_reading)
        return BH_E_AGAIN;
    fake->clock.ns += fake->fast_cost_ns;
    fake->fast_readings++;
    if (fake->calm_every == 0 || fake->fast_readings % fake->calm_every != 0)
        fake->clock.ns += fake->stall_ns;
    *ret_fast = (struct bh_proc_fast){.anon_bytes = bh_fake_anon(fake, process),
                                      .shared_bytes = process->shmem_bytes};
    return BH_OK;
}

static int proc_cpu_ns(void *self, const struct bh_proc *proc, uint64_t *ret_ns)
{
    struct bh_fake *fake = self;
    const struct bh_fake_process *process = of(fake, proc);
    if (!process)
        return BH_E_NOT_FOUND;
    *ret_ns = process->sleeps ? 1 : fake->clock.ns + 2;
    return BH_OK;
}

static int proc_rest(void *self, struct bh_proc *proc, struct bh_proc_rest *ret_rest)
{
    struct bh_fake *fake = self;
    const struct bh_fake_process *process = of(fake, proc);
    if (!process)
        return BH_E_NOT_FOUND;
    if (process->life == BH_FAKE_ZOMBIE)
        return BH_E_CLOSED;
    fake->rest_readings++;
    *ret_rest = (struct bh_proc_rest){.anon_bytes = bh_fake_anon(fake, process),
                                      .rest_bytes = process->rest_bytes + process->shmem_bytes +
                                                    process->huge_bytes,
                                      .huge_bytes = process->huge_bytes,
                                      .shmem_bytes = process->shmem_bytes,
                                      .caught_signals = process->caught_signals};
    return BH_OK;
}

static void play(struct bh_fake *fake)
{
    for (size_t i = 0; i < fake->step_count; i++) {
        struct bh_fake_step step = fake->steps[i];
        if (!step.run || step.at_ns > fake->clock.ns)
            continue;
        fake->steps[i].run = NULL;
        step.run(step.context);
    }
    for (size_t i = 0; i < fake->count; i++) {
        const struct bh_fake_process *process = &fake->processes[i];
        if (process->life == BH_FAKE_LIVES && process->ends_at_ns &&
            process->ends_at_ns <= fake->clock.ns)
            bh_fake_end(fake, process->pid, process->ends_with);
    }
}

static int proc_rollup(void *self, struct bh_proc *proc, struct bh_charge_rollup *ret_rollup)
{
    struct bh_fake *fake = self;
    const struct bh_fake_process *process = of(fake, proc);
    if (!process)
        return BH_E_NOT_FOUND;
    if (fake->rollup_error)
        return fake->rollup_error;
    fake->rollups++;
    fake->clock.ns += fake->rollup_cost_ns;
    fake->cpu_ns += fake->rollup_cost_ns;
    *ret_rollup = (struct bh_charge_rollup){.pss_bytes = process->pss_bytes,
                                            .private_hugetlb_bytes = process->private_hugetlb_bytes,
                                            .shared_hugetlb_bytes = process->shared_hugetlb_bytes};
    if (fake->rollup_cost_ns)
        play(fake); /* the world goes on between the readings of a round */
    return BH_OK;
}

static int list_children(struct bh_fake *fake, int parent, int *ret_pids, size_t capacity,
                         size_t *ret_count)
{
    size_t count = 0;
    for (size_t i = 0; i < fake->count; i++) {
        const struct bh_fake_process *process = &fake->processes[i];
        if (process->parent != parent || process->life == BH_FAKE_GONE)
            continue;
        if (count == capacity) {
            *ret_count = count;
            return BH_E_TOO_LONG;
        }
        ret_pids[count++] = process->pid;
    }
    *ret_count = count;
    return BH_OK;
}

static int proc_children(void *self, struct bh_proc *proc, bool relist, int *ret_pids,
                         size_t capacity, size_t *ret_count)
{
    (void)relist;
    if (!of(self, proc))
        return BH_E_NOT_FOUND;
    return list_children(self, proc->pid, ret_pids, capacity, ret_count);
}

static int own_children(void *self, int *ret_pids, size_t capacity, size_t *ret_count)
{
    return list_children(self, (int)getpid(), ret_pids, capacity, ret_count);
}

static int same_memory(void *self, const struct bh_proc *left, const struct bh_proc *right)
{
    const struct bh_fake_process *process = of(self, right);
    return process && process->borrows_from == left->pid;
}

static void proc_name(void *self, const struct bh_proc *proc, char *ret_name, size_t size)
{
    (void)self;
    (void)snprintf(ret_name, size, "fake%d", proc->pid);
}

static void react(struct bh_fake *fake, struct bh_fake_process *process, int number)
{
    if (number == SIGKILL && !process->survives_kill) {
        bh_fake_end(fake, process->pid, SIGKILL);
    } else if ((number == SIGTERM || number == SIGINT) && process->term_after_ns != UINT64_MAX &&
               !process->ends_at_ns) {
        process->ends_at_ns = fake->clock.ns + process->term_after_ns;
        process->ends_with = number;
    }
}

static int proc_signal(void *self, const struct bh_proc *proc, int number)
{
    struct bh_fake *fake = self;
    struct bh_fake_process *process = of(fake, proc);
    if (!process)
        return BH_E_NOT_FOUND;
    if (fake->signal_error)
        return fake->signal_error;
    process->signals[number]++;
    if (process->life == BH_FAKE_LIVES)
        react(fake, process, number);
    return BH_OK;
}

static int births(void *self, uint64_t *ret_token)
{
    *ret_token = ((struct bh_fake *)self)->births;
    return BH_OK;
}

static int reap(void *self, struct bh_reaped *ret_reaped)
{
    struct bh_fake *fake = self;
    bool any = false;
    for (size_t i = 0; i < fake->count; i++) {
        struct bh_fake_process *process = &fake->processes[i];
        if (process->parent != getpid() || process->life == BH_FAKE_GONE)
            continue;
        any = true;
        if (process->life != BH_FAKE_ZOMBIE)
            continue;
        process->life = BH_FAKE_GONE;
        *ret_reaped = (struct bh_reaped){.pid = process->pid, .wait_status = process->ends_with};
        return 1;
    }
    return any ? 0 : BH_E_NOT_FOUND;
}

/* The next thing the script has in store, if it comes before `until`. */
static uint64_t next_moment(const struct bh_fake *fake, uint64_t until_ns)
{
    for (size_t i = 0; i < fake->step_count; i++) {
        if (fake->steps[i].run && fake->steps[i].at_ns < until_ns)
            until_ns = fake->steps[i].at_ns;
    }
    for (size_t i = 0; i < fake->count; i++) {
        const struct bh_fake_process *process = &fake->processes[i];
        if (process->life == BH_FAKE_LIVES && process->ends_at_ns && process->ends_at_ns < until_ns)
            until_ns = process->ends_at_ns;
    }
    return until_ns;
}

static int wait_for(void *self, struct bh_wait *request)
{
    struct bh_fake *fake = self;
    uint64_t until_ns = next_moment(fake, request->until.ns);
    if (until_ns > fake->clock.ns && !fake->pending_signals)
        fake->clock.ns = until_ns;
    fake->clock.ns += fake->jump_ns + 1000; /* a turn takes a microsecond: time always moves */
    fake->jump_ns = 0;
    fake->cpu_ns += 1000;
    play(fake);
    (void)poll(request->fds, (nfds_t)request->count, 0);
    request->ret_signals = fake->pending_signals;
    fake->pending_signals = 0;
    return BH_OK;
}

void bh_fake_init(struct bh_fake *fake, struct bh_platform *ret_platform)
{
    memset(fake, 0, sizeof *fake);
    fake->clock.ns = 1000 * BH_NS_PER_S;
    fake->host.page_bytes = 4096;
    fake->host.memory_bytes = fake->memory.total_bytes = 16ull << 30;
    fake->host.available_bytes = fake->memory.available_bytes = 12ull << 30;
    *ret_platform = (struct bh_platform){
        .self = fake,
        .now = now,
        .launch = launch,
        .proc_open = proc_open,
        .proc_close = proc_close,
        .proc_facts = proc_facts,
        .proc_fast = proc_fast,
        .proc_rest = proc_rest,
        .proc_cpu_ns = proc_cpu_ns,
        .proc_rollup = proc_rollup,
        .proc_children = proc_children,
        .proc_same_memory = same_memory,
        .proc_name = proc_name,
        .proc_signal = proc_signal,
        .own_children = own_children,
        .births = births,
        .reap = reap,
        .wait = wait_for,
    };
    bh_fake_fill_host(ret_platform);
}
