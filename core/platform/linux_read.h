/* Shared by the Linux files of core/platform, private to them: numbers out of /proc texts, one read
 * each, no allocation. */
#ifndef BH_PLATFORM_LINUX_READ_H
#define BH_PLATFORM_LINUX_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/platform/platform.h"

/* Reads a whole small file from its start into a terminated buffer; the length or an error. EMFILE
 * and ENFILE come as BH_E_NOSPACE, ESRCH and ENOENT as BH_E_NOT_FOUND. */
int bh_linux_pread(int fd, char *buffer, size_t size);
int bh_linux_read_at(int dirfd, const char *name, char *buffer, size_t size);
int bh_linux_open_error(int errno_value);

/* Skips blanks, reads decimal digits, moves *text behind them; 0 when there are none. */
uint64_t bh_linux_number(const char **text);
/* Bytes behind "\nKEY:" in kB units; false when the key is absent. */
bool bh_linux_kb(const char *text, const char *key, uint64_t *ret_bytes);

/* Directory entries that are numbers, without opendir's allocation: visited one by one until visit
 * fails, or listed (BH_E_TOO_LONG: the first ones are given). */
int bh_linux_each_number(int dir_fd, int (*visit)(void *context, int number), void *context);
int bh_linux_list_numbers(int dir_fd, int *ret_numbers, size_t capacity, size_t *ret_count);

/* linux_proc.c */
int bh_linux_proc_open(void *self, int pid, struct bh_proc *ret_proc,
                       struct bh_proc_facts *ret_facts);
void bh_linux_proc_close(void *self, struct bh_proc *proc);
int bh_linux_proc_facts(void *self, struct bh_proc *proc, struct bh_proc_facts *ret_facts);
int bh_linux_proc_signal(void *self, const struct bh_proc *proc, int signal);
void bh_linux_proc_name(void *self, const struct bh_proc *proc, char *ret_name, size_t size);
/* Start token and facts out of the text of a stat file. */
int bh_linux_parse_stat(const char *text, struct bh_proc_facts *ret_facts, uint64_t *ret_token);

/* linux_charge.c */
int bh_linux_proc_cpu_ns(void *self, const struct bh_proc *proc, uint64_t *ret_ns);
int bh_linux_proc_fast(void *self, struct bh_proc *proc, struct bh_proc_fast *ret_fast);
int bh_linux_proc_rest(void *self, struct bh_proc *proc, struct bh_proc_rest *ret_rest);
int bh_linux_proc_rollup(void *self, struct bh_proc *proc, struct bh_charge_rollup *ret_rollup);

/* linux_children.c */
int bh_linux_proc_children(void *self, struct bh_proc *proc, bool relist, int *ret_pids,
                           size_t capacity, size_t *ret_count);
/* Numbers of a kernel list ("12 34 " or one a line) that may be longer than one piece. */
int bh_linux_read_pids(int fd, int *ret_pids, size_t capacity, size_t *ret_count);
int bh_linux_own_children(void *self, int *ret_pids, size_t capacity, size_t *ret_count);
int bh_linux_births(void *self, uint64_t *ret_token);

/* linux_host.c */
int bh_linux_host(void *self, struct bh_platform_host *ret_host);
uint64_t bh_linux_oom_kills(void *self);
int bh_linux_memory(void *self, struct bh_platform_memory *ret_memory);

/* linux_cgroup.c: the smallest limit of the control groups above us, 0 = none known. */
uint64_t bh_linux_outer_limit(void);

/* linux_cgroup_own.c */
int bh_linux_cgroup_make(void *self, const struct bh_cgroup_wish *wish,
                         struct bh_cgroup *ret_cgroup, char *ret_reason, size_t reason_size);
int bh_linux_cgroup_limit(void *self, const struct bh_cgroup *cgroup, uint64_t max_bytes,
                          uint64_t high_bytes);
int bh_linux_cgroup_kill(void *self, const struct bh_cgroup *cgroup);
void bh_linux_cgroup_remove(void *self, struct bh_cgroup *cgroup);

/* linux_cgroup_read.c. detect: with dir_fd given, finds the features and opens the files. */
void bh_linux_cgroup_detect(struct bh_cgroup *cgroup);
int bh_linux_cgroup_charge(void *self, const struct bh_cgroup *cgroup, bool held,
                           struct bh_cgroup_charge *ret_charge);
int bh_linux_cgroup_events(void *self, const struct bh_cgroup *cgroup,
                           struct bh_cgroup_events *ret_events);
int bh_linux_cgroup_members(void *self, const struct bh_cgroup *cgroup, int *ret_pids,
                            size_t capacity, size_t *ret_count);
int bh_linux_cgroup_has(void *self, const struct bh_cgroup *cgroup, const struct bh_proc *proc);
int bh_linux_cgroup_populated(void *self, const struct bh_cgroup *cgroup);

/* Pure parts of it, for tests: where cgroup2 is mounted (mountinfo) and our group (cgroup). */
bool bh_linux_find_cgroup2(const char *mountinfo, char *ret_path, size_t size);
bool bh_linux_find_own_group(const char *text, char *ret_path, size_t size);
/* Whether the text of a process's cgroup file names this group (its last part, "/bulkhead-ID") or
 * one below it; false also when the process is in no group of version 2. */
bool bh_linux_is_below(const char *text, const char *name);
/* "KEY N" lines, as in memory.stat and memory.events; false when the key is absent. */
bool bh_linux_keyed(const char *text, const char *key, uint64_t *ret_value);

#endif
