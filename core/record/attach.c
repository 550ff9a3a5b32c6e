/*
 * Finding libmlx and standing in its way. Python loads extensions with RTLD_LOCAL, so the originals
 * are looked up in the library itself, found among the loaded objects. Before anything is changed
 * the allocator object must look like what is known: version, run-time type, a table whose slots
 * are libmlx's own code. Then its table pointer is exchanged for a private copy with four slots
 * replaced, and tried. On any doubt the job runs on untouched and a ring of one page says why.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "core/record/record.h"

#define NS "_ZN3mlx4core"

#define TABLE_BEFORE 2u  /* offset to top, type information */
#define TABLE_SLOTS  32u /* copied; five are known, the rest is the class's own business */
#define OBJECT_WORDS 40u /* of the allocator, searched for its cache counter */
#define SLOT_MALLOC  0
#define SLOT_FREE    1
#define SLOT_SIZE    2
#define SLOT_MAKE    3
#define SLOT_RELEASE 4

BH_HOT struct bh_mlx bh_mlx;

static uintptr_t table_copy[TABLE_BEFORE + TABLE_SLOTS];
static uintptr_t *table_original;
static char library[4096];
static pthread_mutex_t resolve_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- finding ----------------------------------------------------------------------- */

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *base = strrchr(info->dlpi_name, '/');
    int at;

    (void)size;
    (void)arg;
    base = base == NULL ? info->dlpi_name : base + 1;
    if (strncmp(base, "libmlx.so", 9) != 0 || strlen(info->dlpi_name) >= sizeof(library)) {
        return 0;
    }
    memcpy(library, info->dlpi_name, strlen(info->dlpi_name) + 1);
    bh_mlx.low = UINTPTR_MAX;
    for (at = 0; at < info->dlpi_phnum; at++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[at];
        uintptr_t low = info->dlpi_addr + part->p_vaddr;

        if (part->p_type != PT_LOAD) {
            continue;
        }
        bh_mlx.low = low < bh_mlx.low ? low : bh_mlx.low;
        bh_mlx.high = low + part->p_memsz > bh_mlx.high ? low + part->p_memsz : bh_mlx.high;
        if ((part->p_flags & PF_X) != 0) {
            bh_mlx.text_low = low;
            bh_mlx.text_high = low + part->p_memsz;
        }
    }
    return 1;
}

/* The original of one of our exports: in libmlx, or else (statically embedded) the next one. */
static void (*original(void *handle, const char *name))(void)
{
    void *found = handle == NULL ? NULL : dlsym(handle, name);

    found = found != NULL ? found : dlsym(RTLD_NEXT, name);
    return (void (*)(void))(uintptr_t)found;
}

#define FIND(member, type, name) bh_mlx.member = (type)original(handle, name)

static void find_all(void *handle)
{
    void (*found)(void);
    uint32_t at;

    FIND(get_active_memory, size_t(*)(void), NS "17get_active_memoryEv");
    FIND(get_cache_memory, size_t(*)(void), NS "16get_cache_memoryEv");
    FIND(reset_peak_memory, void (*)(void), NS "17reset_peak_memoryEv");
    FIND(version, const char *(*)(void), NS "7versionEv");
    /* the first one, allocator, last: its being known means that all of them were looked for */
    for (at = bh_hook_count; at-- > 1;) {
        found = original(handle, bh_hooks[at].name);
        memcpy(bh_hooks[at].original, &found, sizeof(found));
    }
    __atomic_store_n(&bh_mlx.allocator, (void *(*)(void))original(handle, bh_hooks[0].name),
                     __ATOMIC_RELEASE);
}

void bh_attach_resolve(void)
{
    void *handle = NULL;

    if (__atomic_load_n(&bh_mlx.allocator, __ATOMIC_ACQUIRE) != NULL) {
        return;
    }
    pthread_mutex_lock(&resolve_lock);
    if (bh_mlx.allocator == NULL) {
        if (dl_iterate_phdr(look_at_object, NULL) != 0) {
            handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD); /* kept: libmlx never unloads */
        }
        find_all(handle);
    }
    pthread_mutex_unlock(&resolve_lock);
}

/* ---- judging ----------------------------------------------------------------------- */

static bool in_text(uintptr_t at)
{
    return at >= bh_mlx.text_low && at < bh_mlx.text_high;
}

static bool in_library(uintptr_t at)
{
    return at >= bh_mlx.low && at < bh_mlx.high;
}

/* The series whose allocator table and node layout were looked at: 0.30.1 up to 0.32.x. */
static bool version_known(const char *text)
{
    unsigned part[3] = {0, 0, 0};
    int at = 0;

    for (; *text != '\0' && at < 3; text++) {
        if (*text == '.') {
            at++;
        } else if (*text >= '0' && *text <= '9' && part[at] < 10000) {
            part[at] = part[at] * 10 + (unsigned)(*text - '0');
        } else {
            break;
        }
    }
    return part[0] == 0 && ((part[1] == 30 && part[2] >= 1) || part[1] == 31 || part[1] == 32);
}

static const char *judge_symbols(void)
{
    if (bh_mlx.allocator == NULL || bh_mlx.low == 0) {
        return "libmlx was not found among the loaded libraries";
    }
    if (bh_mlx.get_active_memory == NULL || bh_mlx.get_cache_memory == NULL ||
        bh_mlx.clear_cache == NULL || bh_mlx.reset_peak_memory == NULL) {
        return "libmlx does not export its memory counters";
    }
    if (bh_mlx.version == NULL || !version_known(bh_mlx.version())) {
        return "this version of MLX is not known to the recorder";
    }
    return NULL;
}

/* Does the object look like an allocator of libmlx? */
static const char *judge_object(void)
{
    const uintptr_t *table;
    const uintptr_t *info;
    int slot;

    bh_mlx.object = bh_mlx.allocator();
    if (!in_library((uintptr_t)bh_mlx.object)) {
        return "MLX's allocator is not an object of libmlx";
    }
    table = *(const uintptr_t **)bh_mlx.object;
    if (!in_library((uintptr_t)table) || !in_library((uintptr_t)(table - TABLE_BEFORE))) {
        return "MLX's allocator has a foreign table";
    }
    info = (const uintptr_t *)table[-1];
    if (!in_library((uintptr_t)info) || !in_library(info[1]) ||
        strncmp((const char *)info[1], "N3mlx4core9allocator", 20) != 0) {
        return "MLX's allocator is of an unknown class";
    }
    for (slot = SLOT_MALLOC; slot <= SLOT_RELEASE; slot++) {
        if (!in_text(table[slot])) {
            return "MLX's allocator has an unknown table layout";
        }
    }
    return NULL;
}

/* ---- attaching --------------------------------------------------------------------- */

static void copy_table(void)
{
    const uintptr_t *table = *(const uintptr_t **)bh_mlx.object;
    size_t slots = (bh_mlx.high - (uintptr_t)table) / sizeof(uintptr_t);

    slots = slots > TABLE_SLOTS ? TABLE_SLOTS : slots;
    memcpy(table_copy, table - TABLE_BEFORE, (TABLE_BEFORE + slots) * sizeof(uintptr_t));
    bh_mlx.malloc = (void *(*)(void *, size_t))table[SLOT_MALLOC];
    bh_mlx.free = (void (*)(void *, void *))table[SLOT_FREE];
    bh_mlx.size = (size_t(*)(void *, void *))table[SLOT_SIZE];
    bh_mlx.make_buffer = (void *(*)(void *, void *, size_t))table[SLOT_MAKE];
    bh_mlx.release = (void (*)(void *, void *))table[SLOT_RELEASE];
    table_copy[TABLE_BEFORE + SLOT_MALLOC] = (uintptr_t)bh_track_malloc;
    table_copy[TABLE_BEFORE + SLOT_FREE] = (uintptr_t)bh_track_free;
    table_copy[TABLE_BEFORE + SLOT_MAKE] = (uintptr_t)bh_track_make_buffer;
    table_copy[TABLE_BEFORE + SLOT_RELEASE] = (uintptr_t)bh_track_release;
}

/* Which words of the allocator object follow its cache total? Asked after each step of the test;
 * one that was right every time, and the only one, is MLX's own counter and can be read in passing.
 */
static void watch_words(bool *wrong, uint64_t cache_bytes)
{
    const uint64_t *words = bh_mlx.object;
    uint32_t at;

    for (at = 0; at < OBJECT_WORDS && (uintptr_t)&words[at + 1] <= bh_mlx.high; at++) {
        wrong[at] = wrong[at] || __atomic_load_n(&words[at], __ATOMIC_RELAXED) != cache_bytes;
    }
    for (; at < OBJECT_WORDS; at++) {
        wrong[at] = true;
    }
}

static void keep_cache_word(const bool *wrong)
{
    uint32_t at, found = 0, right = 0;

    for (at = 0; at < OBJECT_WORDS; at++) {
        if (!wrong[at]) {
            found = at;
            right++;
        }
    }
    bh_mlx.cache_word = right == 1 ? (const uint64_t *)bh_mlx.object + found : NULL;
}

/* One allocation and free through the exchanged table, with nothing recorded yet. */
static const char *try_once(size_t wanted, bool empty, bool *wrong)
{
    uintptr_t *table = *(uintptr_t **)bh_mlx.object;
    void *buffer = ((void *(*)(void *, size_t))table[SLOT_MALLOC])(bh_mlx.object, wanted);
    size_t size_bytes, cache_bytes;
    bool good;

    if (buffer == NULL) {
        return "the test allocation failed";
    }
    size_bytes = ((size_t(*)(void *, void *))table[SLOT_SIZE])(bh_mlx.object, buffer);
    good = size_bytes >= wanted && size_bytes < wanted + 65536 &&
           (!empty || bh_mlx.get_active_memory() == size_bytes);
    ((void (*)(void *, void *))table[SLOT_FREE])(bh_mlx.object, buffer);
    if (empty) {
        cache_bytes = bh_mlx.get_cache_memory();
        watch_words(wrong, cache_bytes);
        good = good && bh_mlx.get_active_memory() == 0 &&
               (cache_bytes == 0 || cache_bytes == size_bytes);
        bh_mlx.clear_cache();
        watch_words(wrong, 0); /* the peak, which looked the same until here, stays */
        bh_mlx.reset_peak_memory();
        good = good && bh_mlx.get_cache_memory() == 0;
    }
    return good ? NULL : "MLX's counters did not follow the test allocation";
}

/* With an empty allocator the test is a real one, whose traces (cache, peak) are removed again;
 * else an allocation of no bytes, which leaves none. */
static const char *try_table(void)
{
    static const size_t sizes[] = {4011, 9001, 16007};
    bool wrong[OBJECT_WORDS] = {false};
    bool empty = bh_mlx.get_active_memory() == 0 && bh_mlx.get_cache_memory() == 0;
    const char *reason = NULL;
    size_t at;

    for (at = 0; reason == NULL && at < sizeof(sizes) / sizeof(sizes[0]); at++) {
        reason = try_once(empty ? sizes[at] : 0, empty, wrong);
    }
    if (reason == NULL && empty) {
        keep_cache_word(wrong);
    }
    return reason;
}

static void set_table(uintptr_t *table)
{
    __atomic_store_n((uintptr_t **)bh_mlx.object, table, __ATOMIC_RELEASE);
}

void bh_attach_leave(void)
{
    bh_phase_set(BH_PHASE_FAILED);
    set_table(table_original);
    bh_bind_update();
}

static const char *swap_table(void)
{
    const char *reason;

    copy_table();
    table_original = *(uintptr_t **)bh_mlx.object;
    set_table(&table_copy[TABLE_BEFORE]);
    reason = try_table();
    if (reason != NULL) {
        set_table(table_original);
    }
    return reason;
}

static void describe(void)
{
    struct bh_ring_header *header = bh_emit.header;

    bh_desc_open();
    header->attach_active_bytes = bh_mlx.get_active_memory();
    header->attach_cache_bytes = bh_mlx.get_cache_memory();
    bh_emit_text(header->mlx_version, sizeof(header->mlx_version), bh_mlx.version());
    if (bh_options.stacks != BH_RING_STACKS_NONE) {
        header->walk = bh_python_open(header->python_version, sizeof(header->python_version));
    }
    if ((bh_mlx.set_data != NULL || bh_mlx.set_data_old != NULL) && bh_mlx.desc_init != NULL) {
        header->flags |= BH_RING_FLAG_LINKS;
    }
}

static void attach(void)
{
    const char *reason = NULL;
    int asked = bh_options_read(&bh_options, &reason);

    if (asked == 0) {
        bh_phase_set(BH_PHASE_INERT);
        return;
    }
    if (asked > 0) {
        reason = judge_symbols();
        reason = reason != NULL ? reason : judge_object();
        if (reason == NULL && bh_life_watch_forks() != 0) {
            reason = "fork handlers could not be set";
        }
        reason = reason != NULL ? reason : swap_table();
    }
    if (reason == NULL && bh_emit_open(&bh_options, 0) != 0) {
        set_table(table_original);
        reason = errno == ENOSPC   ? "no space for the ring"
                 : errno == EFBIG  ? "the ring is larger than the job's file size limit"
                 : errno == ENOMEM ? "no address space for the ring"
                                   : "the ring could not be made";
    }
    if (reason != NULL) {
        bh_emit_refuse(&bh_options, reason);
        bh_phase_set(BH_PHASE_REFUSED);
        return;
    }
    bh_clock_open();
    bh_events_checking = bh_options.check;
    describe();
    bh_phase_set(BH_PHASE_ATTACHED);
}

void *bh_attach_first(void)
{
    int expected = BH_PHASE_UNTRIED;
    int saved = errno;

    bh_attach_resolve();
    if (__atomic_compare_exchange_n(&bh_phase, &expected, BH_PHASE_ATTACHING, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        attach();
        bh_bind_find();
        bh_bind_update();
    }
    errno = saved;
    return bh_mlx.allocator();
}
