/* Array nodes whose layout is the known one, and nodes that have moved on: the stack id must never
 * be written where it could be somebody's data. Nodes are made here the way make_shared makes them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/record/map.c"
#include "core/record/desc.c"

/* What desc.c needs of the rest of the recorder. */
static struct bh_ring_header header = {.control = BH_RING_CONTROL_ON};
struct bh_emit bh_emit = {.header = &header};
static uint32_t next_stack;

uint32_t bh_stack_capture(void)
{
    return ++next_stack;
}

void bh_names_learn(void *primitive)
{
    (void)primitive;
}

static unsigned bindings;

void bh_bind_update(void)
{
    bindings++;
}

/* What init() told of the node made last. */
static struct {
    void *watched, *leaf, *initialised;
    uint32_t leaf_stack;
    unsigned followed;
} told;

void bh_op_watch(void *primitive)
{
    told.watched = primitive;
}

void bh_op_leaf_made(void *desc, uint32_t stack)
{
    told.leaf = desc;
    told.leaf_stack = stack;
}

void bh_track_follow(void)
{
    told.followed++;
}

static void fake_init(void *desc)
{
    told.initialised = desc;
}

struct bh_mlx bh_mlx = {.desc_init = fake_init};

/* A node inside its shared block: {table, counts}, then `bytes` of it. */
struct plan {
    size_t bytes;         /* of the node */
    size_t primitive_at;  /* where the constructor keeps its primitive */
    size_t primitive_too; /* and a second time, 0 = not */
    size_t writes_at;     /* four bytes that the constructor fills, 0 = none */
    bool primitive_late;  /* the primitive is put into its place after init() */
};

static void *make_node(const struct plan *plan, void *primitive)
{
    unsigned char *block = malloc(CONTROL_BYTES + plan->bytes);
    unsigned char *node = block + CONTROL_BYTES;
    uint64_t counts = COUNTS_ONE;
    uint32_t stack;

    assert_non_null(block);
    memset(block, 0x5a, CONTROL_BYTES + plan->bytes);
    memcpy(block + 8, &counts, sizeof(counts));
    bh_desc_before_ctor(node);
    memset(node, 0, NODE_WORD < plan->bytes ? NODE_WORD : plan->bytes); /* the constructor */
    if (!plan->primitive_late) {
        memcpy(node + plan->primitive_at, &primitive, sizeof(primitive));
    }
    if (plan->primitive_too != 0) {
        memcpy(node + plan->primitive_too, &primitive, sizeof(primitive));
    }
    if (plan->writes_at != 0) {
        memset(node + plan->writes_at, 0x77, 4);
    }
    stack = bh_desc_created(node);
    assert_int_equal(stack, next_stack);
    memcpy(node + plan->primitive_at, &primitive, sizeof(primitive));
    bh_desc_after_ctor(node, primitive);
    return node;
}

static void free_node(void *node)
{
    bh_desc_dying(node);
    free((unsigned char *)node - CONTROL_BYTES);
}

static int start_again(void **state)
{
    (void)state;
    bh_desc_open();
    bh_desc_settled = bh_desc_word_settled = false;
    mode = MODE_MAP;
    word_refused = primitive_refused = primitive_late = false;
    seen_in_init = 0;
    memset(&told, 0, sizeof(told));
    bindings = 0;
    header.control = BH_RING_CONTROL_ON;
    word_samples = primitive_offset = primitive_samples = 0;
    memset(sampled, 0, sizeof(sampled));
    header.flags = 0;
    next_stack = 0;
    return 0;
}

/* Makes `count` nodes, checks that each gives back its stack and primitive while it lives, in any
 * order of deaths. */
static void assert_facts_hold(const struct plan *plan, size_t count, bool primitive_known)
{
    void *nodes[300];
    uint32_t stacks[300];
    uint64_t primitives[300][2];
    size_t at;

    assert_true(count <= 300);
    for (at = 0; at < count; at++) {
        primitives[at][0] = 1;
        nodes[at] = make_node(plan, primitives[at]);
        stacks[at] = next_stack;
    }
    for (at = 0; at < count; at++) {
        struct bh_desc_facts facts;

        bh_desc_read(nodes[at], &facts);
        assert_int_equal(facts.stack, stacks[at]);
        assert_ptr_equal(facts.primitive, primitive_known ? (void *)primitives[at] : NULL);
    }
    for (at = 0; at < count; at += 2) {
        free_node(nodes[at]);
    }
    for (at = 1; at < count; at += 2) {
        struct bh_desc_facts facts;

        bh_desc_read(nodes[at], &facts);
        assert_int_equal(facts.stack, stacks[at]);
        free_node(nodes[at]);
    }
}

static void the_known_layout_keeps_ids_in_the_node(void **state)
{
    const struct plan plan = {.bytes = 368, .primitive_at = 200};

    (void)state;
    if (!glibc_malloc) {
        skip(); /* under a sanitizer's malloc there is no block to read */
    }
    assert_facts_hold(&plan, 200, true);
    assert_true(bh_desc_settled);
    assert_int_equal(mode, MODE_WORD);
    assert_true(header.flags & BH_RING_FLAG_DESC_WORD);
    assert_facts_hold(&plan, 200, true);
}

static void a_moved_primitive_is_found(void **state)
{
    const struct plan plan = {.bytes = 368, .primitive_at = 216};

    (void)state;
    assert_facts_hold(&plan, 100, true);
}

static void an_ambiguous_primitive_is_not_used(void **state)
{
    const struct plan plan = {.bytes = 368, .primitive_at = 200, .primitive_too = 240};

    (void)state;
    assert_facts_hold(&plan, 100, false);
}

static void a_larger_node_is_left_alone(void **state)
{
    const struct plan plan = {.bytes = 400, .primitive_at = 200};

    (void)state;
    assert_facts_hold(&plan, 200, true);
    assert_int_equal(mode, MODE_MAP);
    assert_true(bh_desc_settled);
}

static void a_smaller_node_is_left_alone(void **state)
{
    const struct plan plan = {.bytes = 352, .primitive_at = 200};

    (void)state;
    assert_facts_hold(&plan, 200, true);
    assert_int_equal(mode, MODE_MAP);
}

static void a_word_that_is_somebodys_is_left_alone(void **state)
{
    const struct plan plan = {.bytes = 368, .primitive_at = 200, .writes_at = NODE_WORD};

    (void)state;
    assert_facts_hold(&plan, 200, true);
    assert_int_equal(mode, MODE_MAP);
}

static void a_word_that_changes_later_is_given_up(void **state)
{
    const struct plan plan = {.bytes = 368, .primitive_at = 200};
    uint64_t primitive[2] = {1, 0};
    void *node;

    (void)state;
    if (!glibc_malloc) {
        skip();
    }
    node = make_node(&plan, primitive);
    assert_false(word_refused);
    memset((unsigned char *)node + NODE_WORD, 0x11, 4);
    free_node(node);
    assert_true(word_refused);
    assert_facts_hold(&plan, 200, true);
    assert_int_equal(mode, MODE_MAP);
}

/* A node of the known size, as init() finds it once nodes are understood. */
static unsigned char *node_in_init(void *primitive)
{
    unsigned char *node = calloc(1, NODE_BYTES);

    assert_non_null(node);
    memcpy(node + 200, &primitive, sizeof(primitive));
    *word_of(node) = 4711; /* what an earlier node left there */
    return node;
}

static void learn_the_known_layout(void)
{
    const struct plan plan = {.bytes = 368, .primitive_at = 200};

    assert_false(bh_desc_understood());
    assert_facts_hold(&plan, 100, true);
    assert_true(bh_desc_has_word());
    assert_true(bh_desc_understood());
    assert_true(bindings > 0);
}

static void once_understood_init_tells_all(void **state)
{
    uint64_t primitive[2] = {1, 0};
    struct bh_desc_facts facts;
    unsigned char *node, *leaf;

    (void)state;
    if (!glibc_malloc) {
        skip();
    }
    learn_the_known_layout();
    node = node_in_init(primitive);
    bh_desc_init_recording(node);
    bh_desc_read(node, &facts);
    assert_int_equal(facts.stack, next_stack);
    assert_ptr_equal(facts.primitive, primitive);
    assert_ptr_equal(told.watched, primitive);
    assert_ptr_equal(told.initialised, node);
    assert_null(told.leaf);
    leaf = node_in_init(NULL);
    bh_desc_init_recording(leaf);
    assert_ptr_equal(told.leaf, leaf);
    assert_int_equal(told.leaf_stack, next_stack);
    assert_ptr_equal(told.initialised, leaf);
    free(node);
    free(leaf);
}

static void switched_off_no_stack_is_left_behind(void **state)
{
    struct bh_desc_facts facts;
    uint64_t primitive[2] = {1, 0};
    unsigned char *node;
    uint32_t before;

    (void)state;
    if (!glibc_malloc) {
        skip();
    }
    learn_the_known_layout();
    header.control = 0;
    before = next_stack;
    node = node_in_init(primitive);
    bh_desc_init_off(node);
    bh_desc_read(node, &facts);
    assert_int_equal(facts.stack, 0);
    assert_int_equal(next_stack, before);
    assert_ptr_equal(told.initialised, node);
    assert_null(told.watched);
    assert_int_equal(told.followed, 0);
    header.control = BH_RING_CONTROL_ON; /* from the next node on, not from the next event */
    bh_desc_init_off(node);
    bh_desc_read(node, &facts);
    assert_int_equal(facts.stack, before + 1);
    assert_int_equal(told.followed, 1);
    assert_ptr_equal(told.watched, primitive);
    free(node);
}

static void a_primitive_that_comes_after_init_needs_the_constructor(void **state)
{
    const struct plan plan = {.bytes = 368, .primitive_at = 200, .primitive_late = true};

    (void)state;
    assert_facts_hold(&plan, 100, true);
    assert_true(bh_desc_settled);
    assert_false(bh_desc_understood());
}

static void streams_are_read_with_care(void **state)
{
    const struct plan plan = {.bytes = 368, .primitive_at = 200};
    struct {
        uint64_t table;
        int32_t index, device, device_index;
    } primitive = {1, 3, 1, 0};
    struct bh_desc_facts facts;
    void *node = make_node(&plan, &primitive);

    (void)state;
    bh_desc_read(node, &facts);
    assert_int_equal(facts.stream, 3);
    assert_int_equal(facts.device, BH_RING_DEVICE_GPU);
    primitive.device = 77;
    bh_desc_read(node, &facts);
    assert_int_equal(facts.stream, -1);
    assert_int_equal(facts.device, BH_RING_DEVICE_UNKNOWN);
    free_node(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_known_layout_keeps_ids_in_the_node, start_again),
        cmocka_unit_test_setup(a_moved_primitive_is_found, start_again),
        cmocka_unit_test_setup(an_ambiguous_primitive_is_not_used, start_again),
        cmocka_unit_test_setup(a_larger_node_is_left_alone, start_again),
        cmocka_unit_test_setup(a_smaller_node_is_left_alone, start_again),
        cmocka_unit_test_setup(a_word_that_is_somebodys_is_left_alone, start_again),
        cmocka_unit_test_setup(a_word_that_changes_later_is_given_up, start_again),
        cmocka_unit_test_setup(once_understood_init_tells_all, start_again),
        cmocka_unit_test_setup(switched_off_no_stack_is_left_behind, start_again),
        cmocka_unit_test_setup(a_primitive_that_comes_after_init_needs_the_constructor,
                               start_again),
        cmocka_unit_test_setup(streams_are_read_with_care, start_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
