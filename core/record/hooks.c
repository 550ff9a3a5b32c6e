/*
 * The exported functions: libmlx's own names, found first because this library is preloaded. Each
 * looks the original up on the first call (also when nothing is recorded) and passes everything on.
 * Exceptions of the originals travel through these frames.
 *
 * Sources of the signatures: mlx/array.h, mlx/allocator.h, mlx/memory.h of 0.30 to 0.32; class
 * arguments with destructors come by hidden reference, Dtype and Flags in registers (System V).
 */
#include "core/record/record.h"

#define EXPORT       __attribute__((visibility("default"), used))
#define NAMED(name)  __asm__("_ZN3mlx4core" name)
#define SHAPE        "NS0_11SmallVectorIiLm10ESaIiEEENS0_5DtypeE"
#define STRIDES      "NS0_11SmallVectorIlLm10ESaIlEEE"
#define OWNED_OFFSET 40u /* of bool owned_ in allocator::Data {Buffer, std::function, bool} */

static inline void ready(const void *const *original)
{
    if (BH_UNLIKELY(__atomic_load_n(original, __ATOMIC_ACQUIRE) == NULL)) {
        bh_attach_resolve();
    }
}

#define READY(member) ready((const void *const *)(const void *)&bh_mlx.member)

EXPORT void *bh_hook_allocator(void) NAMED("9allocator9allocatorEv");
void *bh_hook_allocator(void)
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

EXPORT void bh_hook_desc_init(void *desc) NAMED("5array9ArrayDesc4initEv");
void bh_hook_desc_init(void *desc)
{
    READY(desc_init);
    bh_mlx.desc_init(desc);
    if (BH_LIKELY(attached())) {
        bh_op_created(bh_desc_created(desc));
    }
}

static inline bool learning(void)
{
    return attached() && !__atomic_load_n(&bh_desc_settled, __ATOMIC_ACQUIRE);
}

EXPORT void bh_hook_desc_ctor_leaf(void *desc, void *shape, uint64_t dtype)
    NAMED("5array9ArrayDescC1E" SHAPE);
void bh_hook_desc_ctor_leaf(void *desc, void *shape, uint64_t dtype)
{
    bool learns = learning();

    READY(desc_ctor_leaf);
    if (BH_UNLIKELY(learns)) {
        bh_desc_before_ctor(desc);
    }
    bh_mlx.desc_ctor_leaf(desc, shape, dtype);
    if (BH_UNLIKELY(learns)) {
        bh_desc_after_ctor(desc, NULL);
    }
    bh_op_leaf();
}

EXPORT void bh_hook_desc_ctor_node(void *desc, void *shape, uint64_t dtype, void *primitive,
                                   void *inputs)
    NAMED("5array9ArrayDescC1E" SHAPE "St10shared_ptrINS0_9PrimitiveEESt6vectorIS1_SaIS1_EE");
void bh_hook_desc_ctor_node(void *desc, void *shape, uint64_t dtype, void *primitive, void *inputs)
{
    bool learns = learning();
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

EXPORT void bh_hook_desc_dtor(void *desc) NAMED("5array9ArrayDescD1Ev");
void bh_hook_desc_dtor(void *desc)
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

EXPORT void bh_hook_set_data(void *array, void *data) NAMED("5array8set_dataENS0_9allocator4DataE");
void bh_hook_set_data(void *array, void *data)
{
    uint64_t buffer = owned_buffer(data);

    READY(set_data);
    if (buffer != 0) {
        bh_track_link(buffer, *(void **)array);
    }
    bh_mlx.set_data(array, data);
}

EXPORT void bh_hook_set_data_long(void *array, void *data, uint64_t size, void *strides,
                                  uint64_t flags, int64_t offset)
    NAMED("5array8set_dataENS0_9allocator4DataEm" STRIDES "NS1_5FlagsEl");
void bh_hook_set_data_long(void *array, void *data, uint64_t size, void *strides, uint64_t flags,
                           int64_t offset)
{
    uint64_t buffer = owned_buffer(data);

    READY(set_data_long);
    if (buffer != 0) {
        bh_track_link(buffer, *(void **)array);
    }
    bh_mlx.set_data_long(array, data, size, strides, flags, offset);
}

/* Up to 0.32.3 the buffer came by itself, with its deleter; who owns it cannot be seen. A second
 * array that takes the same buffer is ignored by the link, which keeps the first. */
EXPORT void bh_hook_set_data_old(void *array, uint64_t buffer, void *deleter)
    NAMED("5array8set_dataENS0_9allocator6BufferESt8functionIFvS3_EE");
void bh_hook_set_data_old(void *array, uint64_t buffer, void *deleter)
{
    READY(set_data_old);
    if (buffer != 0) {
        bh_track_link(buffer, *(void **)array);
    }
    bh_mlx.set_data_old(array, buffer, deleter);
}

EXPORT void bh_hook_set_data_long_0_32(void *array, uint64_t buffer, uint64_t size, void *strides,
                                       uint64_t flags, int64_t offset, void *deleter)
    NAMED("5array8set_dataENS0_9allocator6BufferEm" STRIDES "NS1_5FlagsElSt8functionIFvS3_EE");
void bh_hook_set_data_long_0_32(void *array, uint64_t buffer, uint64_t size, void *strides,
                                uint64_t flags, int64_t offset, void *deleter)
{
    READY(set_data_long_0_32);
    if (buffer != 0) {
        bh_track_link(buffer, *(void **)array);
    }
    bh_mlx.set_data_long_0_32(array, buffer, size, strides, flags, offset, deleter);
}

EXPORT void bh_hook_set_data_long_0_31(void *array, uint64_t buffer, uint64_t size, void *strides,
                                       uint64_t flags, void *deleter)
    NAMED("5array8set_dataENS0_9allocator6BufferEm" STRIDES "NS1_5FlagsESt8functionIFvS3_EE");
void bh_hook_set_data_long_0_31(void *array, uint64_t buffer, uint64_t size, void *strides,
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

EXPORT void bh_hook_clear_cache(void) NAMED("11clear_cacheEv");
void bh_hook_clear_cache(void)
{
    int flush __attribute__((cleanup(flush_ends), unused)) = 0;

    READY(clear_cache);
    bh_track_flush_begin();
    bh_mlx.clear_cache();
}

EXPORT size_t bh_hook_set_cache_limit(size_t limit) NAMED("15set_cache_limitEm");
size_t bh_hook_set_cache_limit(size_t limit)
{
    int flush __attribute__((cleanup(flush_ends), unused)) = 0;

    READY(set_cache_limit);
    bh_track_flush_begin();
    return bh_mlx.set_cache_limit(limit);
}

/* ---- for programs that want to leave a mark in the trace --------------------------- */

EXPORT void bh_record_mark(const char *label);
void bh_record_mark(const char *label)
{
    if (label != NULL && attached()) {
        bh_track_mark(label);
    }
}
