/*
 * Array nodes (mlx::core::array::ArrayDesc): where the recorder keeps the stack id of a node, and
 * where MLX keeps its Primitive.
 *
 * On the MLX builds known so far a node is 368 bytes long and its last four are padding: the stack
 * id lives there, which costs one store and no table. That is an assumption about foreign memory,
 * so it is tested on the first nodes before anything relies on it: the block must have the size
 * that glibc's malloc gives such a node, the word must survive the constructor, and it must still
 * hold what was written when the test ends or the node dies. Until then, and for good if the test
 * fails, a map from node to stack id is used. The place of the Primitive is likewise found, not
 * assumed: the one word of the node that equals the constructor's argument, the same in every node
 * tested.
 *
 * Once both are known, init() alone is enough to see a node: it runs inside the constructor, when
 * the Primitive is in its place (tested as well), and the word needs no care at the node's end.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core/record/record.h"

#define NODE_WORD         364u /* the padding */
#define NODE_POSITION     360u /* u32 before it, 0 in a new node */
#define PRIMITIVE_END     288u /* where the search for the Primitive ends, well inside any node */
#define CONTROL_BYTES     16u  /* make_shared: table pointer and two counts in front of the node */
#define NODE_BYTES        368u /* of the known node */
#define CHUNK_BYTES       400u /* glibc chunk for 16 + 368 bytes, the known node */
#define NODE_POISON       0xb5a1d00du
#define WORD_SAMPLES      64u
#define PRIMITIVE_SAMPLES 8u
#define COUNTS_ONE        0x0000000100000001u
#define STREAMS_MAX       65536

enum mode {
    MODE_MAP = 0, /* also while learning */
    MODE_WORD = 1,
};

bool bh_desc_word_settled;
bool bh_desc_settled;
pthread_mutex_t bh_desc_lock = PTHREAD_MUTEX_INITIALIZER;

static BH_HOT int mode; /* enum mode, atomic */
static struct bh_map map;
static bool word_refused;
static uint32_t word_samples;
static uintptr_t sampled[WORD_SAMPLES];  /* nodes under test, 0 = died */
static BH_HOT uint32_t primitive_offset; /* 0 = not known (a node starts with its shape) */
static uint32_t primitive_samples;
static bool primitive_refused;
static bool primitive_late; /* not yet in its place when init() runs */
/* What lay at primitive_offset when init() ran for the node made last. */
static __thread uintptr_t seen_in_init __attribute__((tls_model("initial-exec")));

static uint32_t *word_of(void *desc)
{
    return (uint32_t *)(void *)((unsigned char *)desc + NODE_WORD);
}

static uint64_t field(const void *desc, size_t offset)
{
    uint64_t value;

    memcpy(&value, (const unsigned char *)desc + offset, sizeof(value));
    return value;
}

/* Is malloc the one of glibc, whose block headers can be read? Asked of malloc itself: a symbol's
 * address does not tell, because a program that is no PIE (Debian's python3) answers with its own
 * PLT. glibc alone gives a node's block 8 bytes more than a multiple of 16; jemalloc, tcmalloc and
 * mimalloc give whole size classes. An operator new that is not libstdc++'s own may have blocks of
 * another kind. */
static bool glibc_malloc;

void bh_desc_open(void)
{
    void *operator_new = dlsym(RTLD_DEFAULT, "_Znwm");
    void *block = malloc(CONTROL_BYTES + NODE_BYTES);
    size_t usable = block == NULL ? 0 : malloc_usable_size(block);
    Dl_info info;

    free(block);
    glibc_malloc =
        (usable == CHUNK_BYTES - 8 || usable == CHUNK_BYTES + 16 - 8) &&
        (operator_new == NULL || (dladdr(operator_new, &info) != 0 && info.dli_fname != NULL &&
                                  strstr(info.dli_fname, "libstdc++") != NULL));
}

bool bh_desc_has_word(void)
{
    return __atomic_load_n(&mode, __ATOMIC_ACQUIRE) == MODE_WORD;
}

bool bh_desc_understood(void)
{
    return bh_desc_has_word() && __atomic_load_n(&bh_desc_settled, __ATOMIC_ACQUIRE) &&
           !primitive_refused && !primitive_late;
}

static void refuse_word(void)
{
    word_refused = true;
    __atomic_store_n(&bh_desc_word_settled, true, __ATOMIC_RELEASE);
    __atomic_store_n(&mode, MODE_MAP, __ATOMIC_RELEASE);
}

static void settle(void)
{
    bool settled = bh_desc_settled;
    int before = mode;
    uint32_t at;

    if (!word_refused && word_samples == WORD_SAMPLES && mode == MODE_MAP) {
        for (at = 0; at < WORD_SAMPLES; at++) {
            if (sampled[at] != 0 &&
                *word_of((void *)sampled[at]) != (uint32_t)bh_map_get(&map, sampled[at])) {
                refuse_word();
                return;
            }
        }
        __atomic_store_n(&mode, MODE_WORD, __ATOMIC_RELEASE);
        __atomic_store_n(&bh_desc_word_settled, true, __ATOMIC_RELEASE);
        if (bh_emit.header != NULL) {
            bh_emit.header->flags |= BH_RING_FLAG_DESC_WORD;
        }
    }
    if ((word_refused || mode == MODE_WORD) &&
        (primitive_refused || primitive_samples >= PRIMITIVE_SAMPLES)) {
        __atomic_store_n(&bh_desc_settled, true, __ATOMIC_RELEASE);
    }
    if (settled != bh_desc_settled || before != mode) {
        bh_bind_update();
    }
}

/* Does the block that make_shared just got have room for a node of the known size? 1: exactly that
 * size, 2: glibc's next size, which it hands out at times, 0: something else. */
static int block_fits(const void *desc)
{
    uint64_t chunk;

    if (!glibc_malloc || field(desc, (size_t)0 - 8) != COUNTS_ONE) {
        return 0;
    }
    chunk = field(desc, (size_t)0 - CONTROL_BYTES - 8) & ~(uint64_t)7;
    return chunk == CHUNK_BYTES ? 1 : chunk == CHUNK_BYTES + 16 ? 2 : 0;
}

void bh_desc_before_ctor(void *desc)
{
    pthread_mutex_lock(&bh_desc_lock);
    if (!word_refused && word_samples < WORD_SAMPLES && block_fits(desc) != 0) {
        *word_of(desc) = NODE_POISON;
    }
    pthread_mutex_unlock(&bh_desc_lock);
}

static void test_word(void *desc)
{
    uint32_t position;
    int fits;

    if (word_refused) {
        return;
    }
    if (word_samples >= WORD_SAMPLES) {
        /* settled by another thread while this node, poisoned before, was being made */
        if (*word_of(desc) == NODE_POISON) {
            *word_of(desc) = (uint32_t)bh_map_get(&map, (uintptr_t)desc);
        }
        return;
    }
    fits = block_fits(desc);
    if (fits == 0) { /* then nothing that far out is ours to read */
        refuse_word();
        return;
    }
    memcpy(&position, (unsigned char *)desc + NODE_POSITION, sizeof(position));
    if (position != 0 || *word_of(desc) != NODE_POISON) {
        refuse_word();
        return;
    }
    *word_of(desc) = (uint32_t)bh_map_get(&map, (uintptr_t)desc);
    if (fits == 1) {
        sampled[word_samples++] = (uintptr_t)desc;
    }
}

static void test_primitive(void *desc, void *primitive)
{
    uint32_t offset, found = 0, hits = 0;

    for (offset = 8; offset + 8 <= PRIMITIVE_END; offset += 8) {
        if (field(desc, offset) == (uintptr_t)primitive) {
            found = offset;
            hits++;
        }
    }
    if (hits != 1 || (primitive_offset != 0 && found != primitive_offset)) {
        primitive_refused = true;
        primitive_offset = 0;
        return;
    }
    primitive_late =
        primitive_late || (primitive_offset != 0 && seen_in_init != (uintptr_t)primitive);
    primitive_samples++;
    __atomic_store_n(&primitive_offset, found, __ATOMIC_RELEASE);
    if (bh_emit.header != NULL) {
        bh_emit.header->flags |= BH_RING_FLAG_STREAMS;
    }
}

void bh_desc_after_ctor(void *desc, void *primitive)
{
    pthread_mutex_lock(&bh_desc_lock);
    test_word(desc);
    if (primitive != NULL) {
        if (!primitive_refused && primitive_samples < PRIMITIVE_SAMPLES) {
            test_primitive(desc, primitive);
        }
        bh_names_learn(primitive);
    }
    settle();
    pthread_mutex_unlock(&bh_desc_lock);
}

static __attribute__((noinline)) void created_in_map(void *desc, uint32_t stack)
{
    pthread_mutex_lock(&bh_desc_lock);
    if (stack != 0) {
        (void)bh_map_put(&map, (uintptr_t)desc, stack);
    } else {
        bh_map_remove(&map, (uintptr_t)desc);
    }
    if (mode == MODE_WORD) {
        *word_of(desc) = stack; /* settled while this node was being made */
    }
    pthread_mutex_unlock(&bh_desc_lock);
}

/* ---- while MLX makes and drops nodes ----------------------------------------------- */

/* init() of a node that is understood. The word is written before the original runs, so that the
 * call to it can be the last thing that happens here. */
void bh_desc_init_recording(void *desc)
{
    uint32_t stack = BH_LIKELY(bh_emit_wanted()) ? bh_stack_capture() : 0;
    void *primitive = (void *)(uintptr_t)field(desc, primitive_offset);

    *word_of(desc) = stack;
    if (primitive != NULL) {
        bh_op_watch(primitive);
    } else {
        bh_op_leaf_made(desc, stack);
    }
    bh_mlx.desc_init(desc);
}

/* The word must not keep what an earlier node left at this place in memory. */
void bh_desc_init_off(void *desc)
{
    *word_of(desc) = 0;
    if (BH_UNLIKELY(bh_emit_wanted())) {
        bh_track_follow(); /* switched on just now: from this node on */
        if (bh_desc_understood()) {
            bh_desc_init_recording(desc);
            return;
        }
        *word_of(desc) = bh_stack_capture();
    }
    bh_mlx.desc_init(desc);
}

uint32_t bh_desc_created(void *desc)
{
    uint32_t stack = bh_emit_wanted() ? bh_stack_capture() : 0;

    if (BH_UNLIKELY(!__atomic_load_n(&bh_desc_settled, __ATOMIC_ACQUIRE)) &&
        primitive_offset != 0) {
        seen_in_init = (uintptr_t)field(desc, primitive_offset);
    }
    if (BH_LIKELY(__atomic_load_n(&mode, __ATOMIC_ACQUIRE) == MODE_WORD)) {
        *word_of(desc) = stack;
        return stack;
    }
    created_in_map(desc, stack);
    return stack;
}

void bh_desc_dying(void *desc)
{
    uint32_t at;

    if (BH_LIKELY(__atomic_load_n(&mode, __ATOMIC_ACQUIRE) == MODE_WORD)) {
        return;
    }
    pthread_mutex_lock(&bh_desc_lock);
    for (at = 0; at < word_samples; at++) {
        if (sampled[at] == (uintptr_t)desc) {
            if (!word_refused && *word_of(desc) != (uint32_t)bh_map_get(&map, (uintptr_t)desc)) {
                refuse_word();
            }
            sampled[at] = 0;
        }
    }
    bh_map_remove(&map, (uintptr_t)desc);
    pthread_mutex_unlock(&bh_desc_lock);
}

/* Primitive: table pointer, then its Stream {int index; Device {int type; int index}}. */
static void read_stream(const void *primitive, struct bh_desc_facts *ret_facts)
{
    int32_t words[2];

    memcpy(words, (const unsigned char *)primitive + 8, sizeof(words));
    if (words[0] < 0 || words[0] >= STREAMS_MAX || words[1] < 0 || words[1] > 1) {
        return;
    }
    ret_facts->stream = words[0];
    ret_facts->device = (uint8_t)words[1];
}

void bh_desc_read(void *desc, struct bh_desc_facts *ret_facts)
{
    uint32_t offset = __atomic_load_n(&primitive_offset, __ATOMIC_ACQUIRE);

    *ret_facts = (struct bh_desc_facts){.stream = -1, .device = BH_RING_DEVICE_UNKNOWN};
    if (__atomic_load_n(&mode, __ATOMIC_ACQUIRE) == MODE_WORD) {
        ret_facts->stack = *word_of(desc);
    } else {
        pthread_mutex_lock(&bh_desc_lock);
        ret_facts->stack = (uint32_t)bh_map_get(&map, (uintptr_t)desc);
        pthread_mutex_unlock(&bh_desc_lock);
    }
    if (offset != 0) {
        ret_facts->primitive = (void *)(uintptr_t)field(desc, offset);
    }
    if (ret_facts->primitive != NULL) {
        read_stream(ret_facts->primitive, ret_facts);
    }
}
