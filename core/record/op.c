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
    uint32_t name;         /* of the class, 0 = each primitive must be asked, or no room for it */
    uintptr_t words[TABLE_BEFORE + TABLE_SLOTS];
};

static struct table tables[TABLES_MAX];
static uint32_t table_count;
static struct bh_map by_original; /* class's own table -> 1 + index, or REFUSED */

#define REFUSED UINT64_MAX

/* The same without a lock, for the classes met first: written once, original last. */
#define NEAR_PLACES 128u
#define NEAR_PROBES 4u
static struct {
    uintptr_t original;
    uintptr_t *copy; /* NULL = left alone */
} near[NEAR_PLACES];

BH_HOT uint32_t bh_op_period;

static inline bool is_copy(uintptr_t table)
{
    return table - (uintptr_t)tables < sizeof(tables);
}

static inline const struct table *table_of(uintptr_t words)
{
    return (const struct table *)(words - TABLE_BEFORE * sizeof(uintptr_t) -
                                  offsetof(struct table, words));
}

uint32_t bh_op_name(void *primitive)
{
    uintptr_t words = primitive == NULL ? 0 : *(const uintptr_t *)primitive;
    uint32_t name = is_copy(words) ? table_of(words)->name : 0;

    return BH_LIKELY(name != 0) ? name : bh_names_primitive(primitive);
}

void bh_op_leaf_made(void *desc, uint32_t stack)
{
    bh_thread.leaf.desc = stack == 0 ? NULL : desc;
    bh_thread.leaf.known = true;
    bh_thread.leaf.facts = (struct bh_op_facts){.stack = stack, .stream = -1};
    bh_thread.leaf_period = __atomic_load_n(&bh_op_period, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) void learn_facts(struct bh_op *op)
{
    struct bh_desc_facts facts;

    bh_desc_read(op->desc, &facts);
    op->facts = (struct bh_op_facts){.stack = facts.stack,
                                     .primitive = bh_op_name(facts.primitive),
                                     .stream = facts.stream,
                                     .device = facts.device};
    op->known = true;
}

const struct bh_op *bh_op_current(void)
{
    struct bh_op *op = &bh_thread.op;

    if (op->desc == NULL) {
        op = &bh_thread.leaf;
        return op->desc != NULL &&
                       bh_thread.leaf_period == __atomic_load_n(&bh_op_period, __ATOMIC_RELAXED)
                   ? op
                   : NULL;
    }
    if (!op->known) {
        learn_facts(op);
    }
    return op;
}

static void restore(struct bh_op *saved)
{
    bh_thread.op = *saved;
}

/* outputs: std::vector<array>, whose first word points at the arrays; an array is a pointer to its
 * node and a count. */
static inline void evaluate(void *primitive, void *inputs, void *outputs, int slot)
{
    struct bh_op saved __attribute__((cleanup(restore), unused)) = bh_thread.op;
    const struct table *table = table_of(*(const uintptr_t *)primitive);
    void **begin = *(void ***)outputs;
    void **end = *((void ***)outputs + 1);

    bh_thread.op.desc = begin != end && bh_emit_wanted() ? begin[0] : NULL;
    bh_thread.op.known = false;
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
    table->name = bh_names_class(&table->words[TABLE_BEFORE]);
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
    uint32_t probe;

    for (probe = 0; probe < NEAR_PROBES; probe++) {
        size_t at = (place + probe) % NEAR_PLACES;

        if (near[at].original == original) {
            return;
        }
        if (near[at].original == 0) {
            near[at].copy = copy;
            __atomic_store_n(&near[at].original, original, __ATOMIC_RELEASE);
            return;
        }
    }
}

static __attribute__((noinline)) void exchange(uintptr_t **primitive)
{
    const uintptr_t *original = *primitive;
    uint64_t known;

    if (!bh_names_learned()) {
        return;
    }
    bh_lock_take(&bh_arena_lock);
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
    bh_lock_give(&bh_arena_lock);
    if (known != REFUSED) {
        __atomic_store_n(primitive, &tables[known - 1].words[TABLE_BEFORE], __ATOMIC_RELEASE);
    }
}

void bh_op_watch(void *primitive)
{
    uintptr_t table = *(const uintptr_t *)primitive;
    size_t place = near_place(table);
    uint32_t probe;

    if (is_copy(table)) {
        return; /* shared with another node: known already */
    }
    for (probe = 0; probe < NEAR_PROBES; probe++) {
        size_t at = (place + probe) % NEAR_PLACES;

        if (BH_LIKELY(__atomic_load_n(&near[at].original, __ATOMIC_ACQUIRE) == table)) {
            if (near[at].copy != NULL) {
                __atomic_store_n((uintptr_t **)primitive, near[at].copy, __ATOMIC_RELEASE);
            }
            return;
        }
    }
    exchange(primitive);
}
