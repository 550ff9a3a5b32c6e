/*
 * Which operation allocates: while a Primitive evaluates, the thread knows it, so that an
 * allocation carries its primitive, stream and stack at once (no LINK slot is needed) and
 * temporaries, which have neither primitive nor Python stack of their own, get those of the
 * operation they serve.
 *
 * Leaf arrays (made from data) are filled right after their node was made, by the same thread and
 * outside any operation: such an allocation carries the stack of that node.
 *
 * A primitive's table pointer is exchanged for a private copy of its class's table, whose first two
 * slots (eval_cpu, eval_gpu) note the operation and call on. The copy keeps the run-time type
 * information in front, so casts and typeid answer as before. Done only once names.c has found
 * name() in slot 5, which confirms the known order of slots; classes from outside libmlx are left
 * alone.
 */
#include <string.h>

#include "core/record/record.h"

#define TABLES_MAX   512u
#define TABLE_BEFORE 2u  /* offset to top, type information */
#define TABLE_SLOTS  24u /* the largest class of MLX has 12 */

struct table {
    uintptr_t original[2]; /* eval_cpu, eval_gpu */
    uintptr_t words[TABLE_BEFORE + TABLE_SLOTS];
};

static struct table tables[TABLES_MAX];
static uint32_t table_count;
static struct bh_map by_original; /* class's own table -> 1 + index, or REFUSED */

#define REFUSED UINT64_MAX

/* The same without a lock, for the classes met first on each place: written once, original last. */
#define NEAR_PLACES 128u
static struct {
    uintptr_t original;
    uintptr_t *copy; /* NULL = left alone */
} near[NEAR_PLACES];

/* The operation that this thread evaluates. */
struct op {
    void *desc; /* of its first output, NULL = none */
    bool known;
    struct bh_op_facts facts;
};
static __thread struct op current __attribute__((tls_model("initial-exec")));

/* Stack of the node made last, and of a leaf that waits for its data. */
static __thread uint32_t last_stack __attribute__((tls_model("initial-exec")));
static __thread uint32_t leaf_stack __attribute__((tls_model("initial-exec")));

void bh_op_created(uint32_t stack)
{
    last_stack = stack;
}

void bh_op_leaf(void)
{
    leaf_stack = last_stack;
}

void bh_op_leaf_filled(void)
{
    leaf_stack = 0;
}

bool bh_op_facts(struct bh_op_facts *ret_facts)
{
    if (current.desc == NULL) {
        *ret_facts = (struct bh_op_facts){.stack = leaf_stack, .stream = -1};
        return leaf_stack != 0;
    }
    if (!current.known) {
        struct bh_desc_facts facts;

        bh_desc_read(current.desc, &facts);
        current.facts = (struct bh_op_facts){.stack = facts.stack,
                                             .primitive = bh_names_primitive(facts.primitive),
                                             .stream = facts.stream,
                                             .device = facts.device};
        current.known = true;
    }
    *ret_facts = current.facts;
    return true;
}

static void restore(struct op *saved)
{
    current = *saved;
}

/* outputs: std::vector<array>, whose first word points at the arrays; an array is a pointer to its
 * node and a count. */
static inline void evaluate(void *primitive, void *inputs, void *outputs, int slot)
{
    struct op saved __attribute__((cleanup(restore), unused)) = current;
    const uintptr_t *words = *(const uintptr_t **)primitive;
    const struct table *table =
        (const struct table *)(const void *)((const unsigned char *)(words - TABLE_BEFORE) -
                                             offsetof(struct table, words));
    void **begin = *(void ***)outputs;
    void **end = *((void ***)outputs + 1);

    current.desc = begin != end && bh_emit_wanted() ? begin[0] : NULL;
    current.known = false;
    ((void (*)(void *, void *, void *))table->original[slot])(primitive, inputs, outputs);
}

static void eval_cpu(void *primitive, void *inputs, void *outputs)
{
    evaluate(primitive, inputs, outputs, 0);
}

static void eval_gpu(void *primitive, void *inputs, void *outputs)
{
    evaluate(primitive, inputs, outputs, 1);
}

/* A copy of a class's table, or NULL when the class is not one of libmlx's primitives. */
static struct table *copy_table(const uintptr_t *original)
{
    struct table *table = &tables[table_count];
    size_t slots = (bh_mlx.high - (uintptr_t)original) / sizeof(*original);

    if (table_count == TABLES_MAX || !bh_names_is_class(original)) {
        return NULL;
    }
    slots = slots > TABLE_SLOTS ? TABLE_SLOTS : slots;
    memcpy(table->words, original - TABLE_BEFORE, (TABLE_BEFORE + slots) * sizeof(*original));
    table->original[0] = original[0];
    table->original[1] = original[1];
    table->words[TABLE_BEFORE] = (uintptr_t)eval_cpu;
    table->words[TABLE_BEFORE + 1] = (uintptr_t)eval_gpu;
    table_count++;
    return table;
}

static inline size_t near_place(uintptr_t original)
{
    return bh_map_hash(original) % NEAR_PLACES;
}

/* Under bh_arena_lock. */
static void keep_near(uintptr_t original, uintptr_t *copy)
{
    size_t place = near_place(original);

    if (near[place].original == 0) {
        near[place].copy = copy;
        __atomic_store_n(&near[place].original, original, __ATOMIC_RELEASE);
    }
}

static __attribute__((noinline)) void exchange(uintptr_t **primitive)
{
    const uintptr_t *original = *primitive;
    uint64_t known;

    if (!bh_names_learned()) {
        return;
    }
    pthread_mutex_lock(&bh_arena_lock);
    known = bh_map_get(&by_original, (uintptr_t)original);
    if (known == 0) {
        const struct table *table = copy_table(original);

        known = table == NULL ? REFUSED : (uint64_t)(table - tables) + 1;
        if (bh_map_put(&by_original, (uintptr_t)original, known) != 0) {
            known = REFUSED;
        }
    }
    keep_near((uintptr_t)original,
              known == REFUSED ? NULL : &tables[known - 1].words[TABLE_BEFORE]);
    pthread_mutex_unlock(&bh_arena_lock);
    if (known != REFUSED) {
        __atomic_store_n(primitive, &tables[known - 1].words[TABLE_BEFORE], __ATOMIC_RELEASE);
    }
}

void bh_op_watch(void *primitive)
{
    uintptr_t table = *(const uintptr_t *)primitive;
    size_t place = near_place(table);

    if (table - (uintptr_t)tables < sizeof(tables)) {
        return; /* shared with another node: known already */
    }
    if (BH_LIKELY(__atomic_load_n(&near[place].original, __ATOMIC_ACQUIRE) == table)) {
        if (near[place].copy != NULL) {
            __atomic_store_n((uintptr_t **)primitive, near[place].copy, __ATOMIC_RELEASE);
        }
        return;
    }
    exchange(primitive);
}
