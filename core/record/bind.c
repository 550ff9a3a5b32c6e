/*
 * The preloaded functions are found first by name, so calls of libmlx and of the extensions that
 * use it come here through slots of their global offset tables. A call that tells nothing right now
 * need not take that way: its slot gets the address of the original, and the call costs what it
 * costs without a recorder. When it is wanted again the slot gets ours back. A slot is one aligned
 * word, stored whole while other threads call through it; either content is right at any time,
 * because the general hooks ask for the state themselves. So a slot that is not known here (of an
 * extension that is loaded later, or read-only after relocation) costs time and nothing else.
 *
 * A slot is ours to write only if it held our function, or the loader's stub that was about to find
 * it; another library that stands in front of libmlx as well keeps its place.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "core/record/record.h"

#define SLOTS_MAX 256u
#define HOOKS_MAX 16u
#define PAGE      4096u

#if defined(__x86_64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#elif defined(__aarch64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#endif

enum binding {
    GENERAL = 0, /* as the loader left it */
    ORIGINAL,
    RECORDING,
    OFF,
};

pthread_mutex_t bh_bind_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    uintptr_t *at;
    const struct bh_hook *hook;
} slots[SLOTS_MAX];
static uint32_t slot_count;
static enum binding bound = GENERAL;

#if defined(JUMP_SLOT)

/* Is ours the function that the loader finds under the hook's name? */
static bool is_first[HOOKS_MAX];

/* What is needed of a loaded object. */
struct object {
    const ElfW(Rela) * relocations;
    size_t relocation_count;
    const ElfW(Sym) * symbols;
    const char *strings;
    uintptr_t base;
    uintptr_t text_low, text_high;
    uintptr_t fixed_low, fixed_high; /* read-only after relocation */
    bool uses_mlx;
};

static uintptr_t original_of(const struct bh_hook *hook)
{
    uintptr_t original;

    memcpy(&original, hook->original, sizeof(original));
    return original;
}

/* The loader may have turned the addresses of the dynamic section into real ones, or not. */
static uintptr_t real_address(const struct object *object, uintptr_t address)
{
    return address < object->base ? object->base + address : address;
}

static bool is_mlx(const char *name)
{
    return strncmp(name, "libmlx.so", 9) == 0;
}

static void read_dynamic(struct object *object, const ElfW(Dyn) * first)
{
    const ElfW(Dyn) * entry;
    size_t bytes = 0;

    for (entry = first; entry->d_tag != DT_NULL; entry++) {
        uintptr_t address = real_address(object, entry->d_un.d_ptr);

        if (entry->d_tag == DT_JMPREL) {
            object->relocations = (const ElfW(Rela) *)address;
        } else if (entry->d_tag == DT_PLTRELSZ) {
            bytes = entry->d_un.d_val;
        } else if (entry->d_tag == DT_PLTREL && entry->d_un.d_val != DT_RELA) {
            return;
        } else if (entry->d_tag == DT_SYMTAB) {
            object->symbols = (const ElfW(Sym) *)address;
        } else if (entry->d_tag == DT_STRTAB) {
            object->strings = (const char *)address;
        }
    }
    if (object->relocations == NULL || object->symbols == NULL || object->strings == NULL) {
        return;
    }
    object->relocation_count = bytes / sizeof(*object->relocations);
    for (entry = first; entry->d_tag != DT_NULL; entry++) {
        object->uses_mlx =
            object->uses_mlx || ((entry->d_tag == DT_NEEDED || entry->d_tag == DT_SONAME) &&
                                 is_mlx(object->strings + entry->d_un.d_val));
    }
}

static void read_object(struct object *object, const struct dl_phdr_info *info)
{
    const ElfW(Dyn) *dynamic = NULL;
    int at;

    object->base = info->dlpi_addr;
    for (at = 0; at < info->dlpi_phnum; at++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[at];
        uintptr_t low = info->dlpi_addr + part->p_vaddr;

        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0) {
            object->text_low = low;
            object->text_high = low + part->p_memsz;
        } else if (part->p_type == PT_GNU_RELRO) {
            object->fixed_low = low;
            object->fixed_high = (low + part->p_memsz) & ~(uintptr_t)(PAGE - 1);
        } else if (part->p_type == PT_DYNAMIC) {
            dynamic = (const ElfW(Dyn) *)low;
        }
    }
    if (dynamic != NULL) {
        read_dynamic(object, dynamic);
    }
}

static const struct bh_hook *hook_of(const char *name)
{
    uint32_t at;

    for (at = 0; at < bh_hook_count; at++) {
        if (strcmp(name, bh_hooks[at].name) == 0) {
            return &bh_hooks[at];
        }
    }
    return NULL;
}

static void keep_slot(const struct object *object, uintptr_t *at, const struct bh_hook *hook)
{
    uintptr_t held = __atomic_load_n(at, __ATOMIC_RELAXED);
    uintptr_t original = original_of(hook);
    bool stub = held >= object->text_low && held < object->text_high && held != original;

    if (slot_count == SLOTS_MAX || original == 0 || (uintptr_t)at % sizeof(*at) != 0 ||
        ((uintptr_t)at >= object->fixed_low && (uintptr_t)at < object->fixed_high) ||
        !(held == (uintptr_t)hook->general || (stub && is_first[hook - bh_hooks]))) {
        return;
    }
    slots[slot_count].at = at;
    slots[slot_count].hook = hook;
    slot_count++;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct object object = {0};
    size_t at;

    (void)size;
    (void)arg;
    read_object(&object, info);
    for (at = 0; object.uses_mlx && at < object.relocation_count; at++) {
        const ElfW(Rela) *one = &object.relocations[at];
        const struct bh_hook *hook;

        if (ELF64_R_TYPE(one->r_info) != JUMP_SLOT) {
            continue;
        }
        hook = hook_of(object.strings + object.symbols[ELF64_R_SYM(one->r_info)].st_name);
        if (hook != NULL) {
            keep_slot(&object, (uintptr_t *)(object.base + one->r_offset), hook);
        }
    }
    return 0;
}

static uintptr_t wanted_in(const struct bh_hook *hook, enum binding binding)
{
    void (*chosen)(void) = binding == RECORDING ? hook->recording
                           : binding == OFF     ? hook->off
                           : binding == GENERAL ? hook->general
                                                : NULL;

    return chosen != NULL ? (uintptr_t)chosen : original_of(hook);
}

void bh_bind_find(void)
{
    uint32_t at;

    pthread_mutex_lock(&bh_bind_lock);
    if (slot_count == 0 && bh_hook_count <= HOOKS_MAX) {
        /* not from within the iteration: it holds a lock of the loader that dlsym takes second */
        for (at = 0; at < bh_hook_count; at++) {
            is_first[at] =
                dlsym(RTLD_DEFAULT, bh_hooks[at].name) == (void *)(uintptr_t)bh_hooks[at].general;
        }
        (void)dl_iterate_phdr(look_at_object, NULL);
    }
    pthread_mutex_unlock(&bh_bind_lock);
}

#else

static uintptr_t wanted_in(const struct bh_hook *hook, enum binding binding)
{
    (void)binding;
    return (uintptr_t)hook->general;
}

void bh_bind_find(void)
{
}

#endif

static enum binding wanted(void)
{
    if (bh_phase_get() > BH_PHASE_ATTACHED) {
        return ORIGINAL;
    }
    if (bh_phase_get() < BH_PHASE_ATTACHED || !bh_desc_has_word()) {
        return GENERAL;
    }
    if (!__atomic_load_n(&bh_events_recording, __ATOMIC_ACQUIRE)) {
        return OFF;
    }
    return bh_desc_understood() ? RECORDING : GENERAL;
}

void bh_bind_update(void)
{
    enum binding binding;
    uint32_t at;

    pthread_mutex_lock(&bh_bind_lock);
    binding = wanted();
    if (binding != bound) {
        bound = binding;
        for (at = 0; at < slot_count; at++) {
            __atomic_store_n(slots[at].at, wanted_in(slots[at].hook, binding), __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&bh_bind_lock);
}
