/*
 * The exported functions: libmlx's own names, found first because this library is preloaded. Each
 * looks the original up on the first call (also when nothing is recorded) and passes everything on.
 * Exceptions of the originals travel through these frames. They are right in every phase and ask
 * for it; bind.c puts shorter ways in place of them where it can.
 *
 * Sources of the signatures: mlx/array.h, mlx/allocator.h, mlx/memory.h of 0.30 to 0.32; class
 * arguments with destructors come by hidden reference, Dtype and Flags in registers (System V).
 */
#include <string.h>

#include "core/record/record.h"

#define OWNED_OFFSET 40u /* of bool owned_ in allocator::Data {Buffer, std::function, bool} */

/* Exports a function under one of libmlx's names. Its own name goes on meaning this library's
 * function, also where yet another library stands in front of libmlx. */
#define EXPORT(function, name)                                                                     \
    extern __typeof__(function) export_##function __asm__(name)                                    \
        __attribute__((alias(#function), visibility("default"), used))

static inline void ready(const void *const *original)
{
    if (BH_UNLIKELY(__atomic_load_n(original, __ATOMIC_ACQUIRE) == NULL)) {
        bh_attach_resolve();
    }
}

#define READY(member) ready((const void *const *)(const void *)&bh_mlx.member)

static void *hook_allocator(void)
{
    int phase = bh_phase_get();

    if (BH_LIKELY(phase == BH_PHASE_ATTACHED)) {
        return bh_mlx.object;
    }
    if (phase == BH_PHASE_UNTRIED) {
        return bh_attach_first();
    }
    READY(allocator);
    return bh_mlx.allocator();
}

static inline bool attached(void)
{
    return bh_phase_get() == BH_PHASE_ATTACHED;
}

/* ---- array nodes ------------------------------------------------------------------- */

static void hook_desc_init(void *desc)
{
    READY(desc_init);
    bh_mlx.desc_init(desc);
    if (BH_LIKELY(attached())) {
        bh_thread.last_stack = bh_desc_created(desc);
    }
}

static void hook_desc_ctor_leaf(void *desc, void *shape, uint64_t dtype)
{
    bool learns = attached() && !__atomic_load_n(&bh_desc_word_settled, __ATOMIC_ACQUIRE);

    READY(desc_ctor_leaf);
    if (BH_UNLIKELY(learns)) {
        bh_desc_before_ctor(desc);
    }
    bh_mlx.desc_ctor_leaf(desc, shape, dtype);
    if (BH_UNLIKELY(learns)) {
        bh_desc_after_ctor(desc, NULL);
    }
    if (BH_LIKELY(attached())) {
        bh_op_leaf_made(desc, bh_thread.last_stack);
    }
}

static void hook_desc_ctor_node(void *desc, void *shape, uint64_t dtype, void *primitive,
                                void *inputs)
{
    bool learns = attached() && !__atomic_load_n(&bh_desc_settled, __ATOMIC_ACQUIRE);
    void *pointed = attached() ? *(void **)primitive : NULL; /* moved from by the constructor */

    READY(desc_ctor_node);
    if (BH_UNLIKELY(learns)) {
        bh_desc_before_ctor(desc);
    }
    bh_mlx.desc_ctor_node(desc, shape, dtype, primitive, inputs);
    if (BH_UNLIKELY(learns)) {
        bh_desc_after_ctor(desc, pointed);
    }
    if (BH_LIKELY(pointed != NULL)) {
        bh_op_watch(pointed);
    }
}

static void hook_desc_dtor(void *desc)
{
    READY(desc_dtor);
    if (BH_LIKELY(attached())) {
        bh_desc_dying(desc); /* before the original: a node is recycled at its address at once */
    }
    bh_mlx.desc_dtor(desc);
}

/* ---- arrays and their buffers ------------------------------------------------------ */

/* The buffer that an array is about to own, 0 for a weak copy of somebody else's. */
static inline uint64_t owned_buffer(const void *data)
{
    if (*((const unsigned char *)data + OWNED_OFFSET) == 0) {
        return 0;
    }
    return *(const uint64_t *)data;
}

static void hook_set_data(void *array, void *data)
{
    uint64_t buffer = owned_buffer(data);

    READY(set_data);
    if (buffer != 0) {
        bh_track_link_owned(buffer, *(void **)array);
    }
    bh_mlx.set_data(array, data);
}

static void hook_set_data_long(void *array, void *data, uint64_t size, void *strides,
                               uint64_t flags, int64_t offset)
{
    uint64_t buffer = owned_buffer(data);

    READY(set_data_long);
    if (buffer != 0) {
        bh_track_link_owned(buffer, *(void **)array);
    }
    bh_mlx.set_data_long(array, data, size, strides, flags, offset);
}

/* Up to 0.32.3 the buffer came by itself, with its deleter; who owns it cannot be seen. A second
 * array that takes the same buffer is ignored by the link, which keeps the first. */
static void hook_set_data_old(void *array, uint64_t buffer, void *deleter)
{
    READY(set_data_old);
    if (buffer != 0) {
        bh_track_link(buffer, *(void **)array);
    }
    bh_mlx.set_data_old(array, buffer, deleter);
}

static void hook_set_data_long_0_32(void *array, uint64_t buffer, uint64_t size, void *strides,
                                    uint64_t flags, int64_t offset, void *deleter)
{
    READY(set_data_long_0_32);
    if (buffer != 0) {
        bh_track_link(buffer, *(void **)array);
    }
    bh_mlx.set_data_long_0_32(array, buffer, size, strides, flags, offset, deleter);
}

static void hook_set_data_long_0_31(void *array, uint64_t buffer, uint64_t size, void *strides,
                                    uint64_t flags, void *deleter)
{
    READY(set_data_long_0_31);
    if (buffer != 0) {
        bh_track_link(buffer, *(void **)array);
    }
    bh_mlx.set_data_long_0_31(array, buffer, size, strides, flags, deleter);
}

/* ---- what empties the cache -------------------------------------------------------- */

static void flush_ends(const int *unused)
{
    (void)unused;
    bh_track_flush_end();
}

static void hook_clear_cache(void)
{
    int flush __attribute__((cleanup(flush_ends), unused)) = 0;

    READY(clear_cache);
    bh_track_flush_begin();
    bh_mlx.clear_cache();
}

static size_t hook_set_cache_limit(size_t limit)
{
    int flush __attribute__((cleanup(flush_ends), unused)) = 0;

    READY(set_cache_limit);
    bh_track_flush_begin();
    return bh_mlx.set_cache_limit(limit);
}

/* ---- the table --------------------------------------------------------------------- */

#define NS      "_ZN3mlx4core"
#define SHAPE   "NS0_11SmallVectorIiLm10ESaIiEEENS0_5DtypeE"
#define STRIDES "NS0_11SmallVectorIlLm10ESaIlEEE"
#define DELETER "St8functionIFvS3_EE"

#define ALLOCATOR      NS "9allocator9allocatorEv"
#define DESC_INIT      NS "5array9ArrayDesc4initEv"
#define DESC_DTOR      NS "5array9ArrayDescD1Ev"
#define DESC_CTOR_LEAF NS "5array9ArrayDescC1E" SHAPE
#define DESC_CTOR_NODE DESC_CTOR_LEAF "St10shared_ptrINS0_9PrimitiveEESt6vectorIS1_SaIS1_EE"
#define SET_DATA       NS "5array8set_dataENS0_9allocator4DataE"
#define SET_DATA_LONG  NS "5array8set_dataENS0_9allocator4DataEm" STRIDES "NS1_5FlagsEl"
#define SET_DATA_OLD   NS "5array8set_dataENS0_9allocator6BufferE" DELETER
#define SET_DATA_LONG_0_32                                                                         \
    NS "5array8set_dataENS0_9allocator6BufferEm" STRIDES "NS1_5FlagsEl" DELETER
#define SET_DATA_LONG_0_31                                                                         \
    NS "5array8set_dataENS0_9allocator6BufferEm" STRIDES "NS1_5FlagsE" DELETER
#define CLEAR_CACHE     NS "11clear_cacheEv"
#define SET_CACHE_LIMIT NS "15set_cache_limitEm"

EXPORT(hook_allocator, ALLOCATOR);
EXPORT(hook_desc_init, DESC_INIT);
EXPORT(hook_desc_dtor, DESC_DTOR);
EXPORT(hook_desc_ctor_leaf, DESC_CTOR_LEAF);
EXPORT(hook_desc_ctor_node, DESC_CTOR_NODE);
EXPORT(hook_set_data, SET_DATA);
EXPORT(hook_set_data_long, SET_DATA_LONG);
EXPORT(hook_set_data_old, SET_DATA_OLD);
EXPORT(hook_set_data_long_0_32, SET_DATA_LONG_0_32);
EXPORT(hook_set_data_long_0_31, SET_DATA_LONG_0_31);
EXPORT(hook_clear_cache, CLEAR_CACHE);
EXPORT(hook_set_cache_limit, SET_CACHE_LIMIT);

#define FUNCTION(name) ((void (*)(void))(name))
#define HOOK(name, member, recording, off)                                                         \
    {                                                                                              \
        name, FUNCTION(hook_##member), &bh_mlx.member, recording, off                              \
    }

/* While recording, one look at a new node tells everything that the constructors and the destructor
 * told while nodes were still being learned. */
const struct bh_hook bh_hooks[] = {
    HOOK(ALLOCATOR, allocator, NULL, NULL),
    HOOK(DESC_INIT, desc_init, FUNCTION(bh_desc_init_recording), FUNCTION(bh_desc_init_off)),
    HOOK(DESC_DTOR, desc_dtor, NULL, NULL),
    HOOK(DESC_CTOR_LEAF, desc_ctor_leaf, NULL, NULL),
    HOOK(DESC_CTOR_NODE, desc_ctor_node, NULL, NULL),
    HOOK(SET_DATA, set_data, FUNCTION(hook_set_data), NULL),
    HOOK(SET_DATA_LONG, set_data_long, FUNCTION(hook_set_data_long), NULL),
    HOOK(SET_DATA_OLD, set_data_old, FUNCTION(hook_set_data_old), NULL),
    HOOK(SET_DATA_LONG_0_32, set_data_long_0_32, FUNCTION(hook_set_data_long_0_32), NULL),
    HOOK(SET_DATA_LONG_0_31, set_data_long_0_31, FUNCTION(hook_set_data_long_0_31), NULL),
    HOOK(CLEAR_CACHE, clear_cache, FUNCTION(hook_clear_cache), FUNCTION(hook_clear_cache)),
    HOOK(SET_CACHE_LIMIT, set_cache_limit, FUNCTION(hook_set_cache_limit),
         FUNCTION(hook_set_cache_limit)),
};
const uint32_t bh_hook_count = sizeof(bh_hooks) / sizeof(bh_hooks[0]);

/* ---- for programs that want to leave a mark in the trace --------------------------- */

__attribute__((visibility("default"), used)) void bh_record_mark(const char *label);
void bh_record_mark(const char *label)
{
    if (label != NULL && attached()) {
        bh_track_mark(label);
    }
}
