/*
 * Interned strings, and what a Primitive is called. The name comes from Primitive::name(), whose
 * place in the virtual table is learned from the first primitive seen: the slot whose function does
 * nothing but return a text equal to the class name in the object's run-time type information.
 * Where that fails (another compiler, another architecture) the class name itself is used.
 */
#include <errno.h>
#include <string.h>

#include "core/record/record.h"

#define NAME_SLOTS      16u
#define NAME_BYTES_MAX  512u
#define CLASS_BYTES_MAX 128u

static struct bh_map strings;    /* hash of the bytes -> string id */
static struct bh_map by_pointer; /* constant text in libmlx -> string id */
static struct bh_map by_table;   /* primitive's table -> string id of the class name */
static int name_slot = -1;       /* -1: not learned */
static int specimens;            /* tried so far */

#define SPECIMENS_MAX   64
#define NAME_SLOT_KNOWN 5 /* in MLX 0.30 to 0.32 */

pthread_mutex_t bh_names_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_bytes(const char *bytes, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u ^ length;
    uint64_t word;

    for (; length >= 8; bytes += 8, length -= 8) {
        memcpy(&word, bytes, 8);
        hash = bh_map_hash(hash ^ word) + 0x632be59bd9b4e019u;
    }
    word = 0;
    memcpy(&word, bytes, length);
    hash = bh_map_hash(hash ^ word);
    hash ^= hash >> 31;
    hash *= 0x94d049bb133111ebu;
    return hash == 0 ? 1 : hash;
}

uint32_t bh_names_intern(const char *bytes, size_t length)
{
    uint64_t key, id;

    if (length > BH_RING_STRING_BYTES_MAX) {
        length = BH_RING_STRING_BYTES_MAX;
        while (length > 0 && ((unsigned char)bytes[length] & 0xc0) == 0x80) {
            length--; /* not in the middle of a character */
        }
    }
    key = hash_bytes(bytes, length);
    id = bh_map_get(&strings, key);
    if (id == 0) {
        id = bh_emit_string(bytes, length);
        if (id != 0 && bh_map_put(&strings, key, id) != 0) {
            return 0;
        }
    }
    return (uint32_t)id;
}

static bool in_mlx(uintptr_t at)
{
    return at >= bh_mlx.low && at < bh_mlx.high;
}

static bool in_mlx_text(uintptr_t at)
{
    return at >= bh_mlx.text_low && at < bh_mlx.text_high;
}

/* The class name at the end of a mangled type name such as N3mlx4core3AddE. Returns its length, 0
 * when it does not look like one. */
static size_t class_name(const uintptr_t *table, const char **ret_name)
{
    const uintptr_t *info = (const uintptr_t *)table[-1];
    const char *at, *last = NULL;
    size_t length = 0, bytes = 0;

    if (!in_mlx((uintptr_t)info) || !in_mlx(info[1])) {
        return 0;
    }
    at = (const char *)info[1];
    if (*at++ != 'N') {
        return 0;
    }
    while (*at >= '1' && *at <= '9') {
        for (length = 0; *at >= '0' && *at <= '9' && length < CLASS_BYTES_MAX; at++) {
            length = length * 10 + (size_t)(*at - '0');
        }
        if (length == 0 || length > CLASS_BYTES_MAX || strnlen(at, length) < length) {
            return 0;
        }
        last = at;
        bytes = length;
        at += length;
    }
    if (*at != 'E' || last == NULL) {
        return 0;
    }
    *ret_name = last;
    return bytes;
}

#if defined(__x86_64__)
/* The text that a function returns if it is nothing but `lea text(%rip),%rax; ret`, else NULL. */
static const char *constant_text(uintptr_t function)
{
    const unsigned char *code = (const unsigned char *)function;
    int32_t distance;
    uintptr_t text;

    if (!in_mlx_text(function) || !in_mlx_text(function + 16)) {
        return NULL;
    }
    if (memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0) {
        code += 4;
    }
    if (memcmp(code, "\x48\x8d\x05", 3) != 0 || code[7] != 0xc3) {
        return NULL;
    }
    memcpy(&distance, code + 3, 4);
    text = (uintptr_t)(code + 7) + (uintptr_t)(intptr_t)distance;
    return in_mlx(text) ? (const char *)text : NULL;
}
#else
static const char *constant_text(uintptr_t function)
{
    (void)function;
    return NULL;
}
#endif

void bh_names_learn(void *primitive)
{
    const uintptr_t *table = *(const uintptr_t **)primitive;
    const char *name;
    size_t bytes;
    int slot;

    if (name_slot >= 0 || specimens >= SPECIMENS_MAX || !in_mlx((uintptr_t)table)) {
        return;
    }
    specimens++;
    bytes = class_name(table, &name);
    for (slot = 0; bytes != 0 && slot < (int)NAME_SLOTS; slot++) {
        const char *text = constant_text(table[slot]);

        if (text != NULL && strnlen(text, bytes + 1) == bytes && memcmp(text, name, bytes) == 0) {
            __atomic_store_n(&name_slot, slot, __ATOMIC_RELEASE);
            return;
        }
    }
}

/* Text that lies in libmlx itself is constant: its address stands for it. */
static uint32_t intern_text(const char *text)
{
    size_t length = strnlen(text, NAME_BYTES_MAX);
    uint32_t id = bh_names_intern(text, length);

    if (id != 0 && in_mlx((uintptr_t)text)) {
        (void)bh_map_put(&by_pointer, (uintptr_t)text, id);
    }
    return id;
}

bool bh_names_learned(void)
{
    return __atomic_load_n(&name_slot, __ATOMIC_ACQUIRE) == NAME_SLOT_KNOWN;
}

bool bh_names_is_class(const uintptr_t *table)
{
    const char *name;

    return in_mlx((uintptr_t)table) && in_mlx_text(table[0]) && in_mlx_text(table[1]) &&
           in_mlx_text(table[NAME_SLOT_KNOWN]) && class_name(table, &name) != 0;
}

/* The id that stands for all primitives of a class: its constant name, or the class name when
 * name() cannot be asked. */
uint32_t bh_names_class(const uintptr_t *table)
{
    int slot = __atomic_load_n(&name_slot, __ATOMIC_ACQUIRE);
    const char *text = slot < 0 ? NULL : constant_text(table[slot]);
    const char *name;
    size_t bytes;
    uint32_t id = 0;

    if (text != NULL) {
        id = intern_text(text);
    } else if (slot < 0 || !in_mlx_text(table[slot])) {
        bytes = class_name(table, &name);
        id = bytes == 0 ? 0 : bh_names_intern(name, bytes);
    }
    if (id != 0) {
        (void)bh_map_put(&by_table, (uintptr_t)table, id);
    }
    return id;
}

/* name() of an object whose class computes it. Some build the text at the first call, without a
 * lock of their own: ours keeps two threads of the recorder apart. */
static uint32_t ask_name(void *primitive, const uintptr_t *table, int slot)
{
    const char *text;
    int saved = errno;
    uint32_t id;

    pthread_mutex_lock(&bh_names_lock);
    text = ((const char *(*)(void *))table[slot])(primitive);
    pthread_mutex_unlock(&bh_names_lock);
    errno = saved;
    if (text == NULL) {
        return 0;
    }
    bh_lock_take(&bh_arena_lock);
    id = (uint32_t)bh_map_get(&by_pointer, (uintptr_t)text);
    id = id != 0 ? id : intern_text(text);
    bh_lock_give(&bh_arena_lock);
    return id;
}

uint32_t bh_names_primitive(void *primitive)
{
    const uintptr_t *table;
    int slot = __atomic_load_n(&name_slot, __ATOMIC_ACQUIRE);
    uint32_t id;

    if (primitive == NULL) {
        return 0;
    }
    table = *(const uintptr_t **)primitive;
    bh_lock_take(&bh_arena_lock);
    id = (uint32_t)bh_map_get(&by_table, (uintptr_t)table);
    id = id != 0 ? id : bh_names_class(table);
    bh_lock_give(&bh_arena_lock);
    if (id == 0 && slot >= 0 && in_mlx_text(table[slot])) {
        id = ask_name(primitive, table, slot);
    }
    return id;
}
