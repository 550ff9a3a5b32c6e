/*
 * Reading the interpreter's frames without touching its reference counts: the raw walk follows the
 * chain of interpreter frames by offsets, which come from the version (3.11, 3.12) or from the
 * table that the interpreter publishes for debuggers (3.13). A self-test compares one walk, its
 * instruction offsets and its line numbers with the interpreter's own answers; if they differ, or
 * the version is unknown, the public frame API is used instead, which is slower.
 *
 * All CPython functions are found by name at run time: a process without Python has none, and then
 * there are no Python stacks. Callers hold the GIL or get an empty walk: the current thread state
 * must be the calling thread's own (in 3.10 and 3.11 the global one may belong to another thread).
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/types.h>

#include "core/record/record.h"

#define TEST_FRAMES 64u

struct layout {
    size_t state_cframe; /* thread state -> cframe, SIZE_MAX: none in between */
    size_t state_frame;  /* (cframe or thread state) -> current frame */
    size_t frame_code, frame_previous, frame_at;
    size_t frame_owner; /* SIZE_MAX: all frames are Python code */
    size_t code_file, code_name, code_bytes;
};

static const struct layout layout_3_11 = {56, 8, 32, 48, 56, SIZE_MAX, 112, 120, 184};
static const struct layout layout_3_12 = {56, 0, 0, 8, 56, 70, 112, 120, 192};

/* Frames with an owner from here on are the interpreter's own, not Python code. */
#define OWNER_NOT_PYTHON 3u

/* 3.11: thread state -> pthread_self() of its thread. */
#define STATE_THREAD_3_11 152u

static struct {
    int (*initialized)(void);
    const char *(*version)(void);
    void *(*state)(void);     /* the current thread state, NULL without GIL */
    void *(*own_state)(void); /* this thread's state; 3.11 and before only */
    void *(*state_frame)(void *);
    void *(*frame_back)(void *);
    void *(*frame_code)(void *);
    int (*frame_lasti)(void *); /* 3.11 and later */
    int (*frame_line)(void *);
    int (*code_line)(void *, int);
    void (*incref)(void *);
    void (*decref)(void *);
    const char *(*utf8)(void *, ssize_t *);
    void *(*attribute)(void *, const char *);
    void (*error_fetch)(void **, void **, void **);
    void (*error_restore)(void *, void *, void *);
} py;

BH_HOT uint32_t bh_python_walk = BH_RING_WALK_NONE;

static BH_HOT struct layout layout;
static BH_HOT unsigned known_layout; /* 11, 12: that of 3.11 or 3.12; 0: found at run time */
static BH_HOT size_t state_thread; /* STATE_THREAD_3_11 once it was tested, 0 = ask py.own_state */
static uint64_t keys[2 * BH_RING_DEPTH_MAX];

static void (*symbol(const char *name))(void)
{
    return (void (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, name);
}

/* Finds the functions; false when there is no usable Python in this process. */
static bool resolve(unsigned *ret_minor)
{
    const char *text;
    unsigned minor = 0;

    py.initialized = (int (*)(void))symbol("Py_IsInitialized");
    py.version = (const char *(*)(void))symbol("Py_GetVersion");
    if (py.initialized == NULL || py.version == NULL || !py.initialized()) {
        return false;
    }
    text = py.version();
    if (strncmp(text, "3.", 2) != 0) {
        return false;
    }
    for (text += 2; *text >= '0' && *text <= '9' && minor < 1000; text++) {
        minor = minor * 10 + (unsigned)(*text - '0');
    }
    *ret_minor = minor;
    py.state = (void *(*)(void))symbol("_PyThreadState_UncheckedGet");
    if (py.state == NULL) {
        py.state = (void *(*)(void))symbol("PyThreadState_GetUnchecked");
    }
    py.own_state = minor < 12 ? (void *(*)(void))symbol("PyGILState_GetThisThreadState") : NULL;
    py.state_frame = (void *(*)(void *))symbol("PyThreadState_GetFrame");
    py.frame_back = (void *(*)(void *))symbol("PyFrame_GetBack");
    py.frame_code = (void *(*)(void *))symbol("PyFrame_GetCode");
    py.frame_lasti = (int (*)(void *))symbol("PyFrame_GetLasti");
    py.frame_line = (int (*)(void *))symbol("PyFrame_GetLineNumber");
    py.code_line = (int (*)(void *, int))symbol("PyCode_Addr2Line");
    py.incref = (void (*)(void *))symbol("Py_IncRef");
    py.decref = (void (*)(void *))symbol("Py_DecRef");
    py.utf8 = (const char *(*)(void *, ssize_t *))symbol("PyUnicode_AsUTF8AndSize");
    py.attribute = (void *(*)(void *, const char *))symbol("PyObject_GetAttrString");
    py.error_fetch = (void (*)(void **, void **, void **))symbol("PyErr_Fetch");
    py.error_restore = (void (*)(void *, void *, void *))symbol("PyErr_Restore");
    return py.state != NULL && (minor >= 12 || py.own_state != NULL) && py.state_frame != NULL &&
           py.frame_back != NULL && py.frame_code != NULL && py.frame_line != NULL &&
           py.code_line != NULL && py.incref != NULL && py.decref != NULL && py.utf8 != NULL &&
           py.attribute != NULL && py.error_fetch != NULL && py.error_restore != NULL;
}

/* Words of _Py_DebugOffsets, 3.13: cookie, version, free_threaded, then groups of offsets. */
enum {
    DEBUG_VERSION = 1,
    DEBUG_FREE_THREADED = 2,
    DEBUG_STATE_FRAME = 23,
    DEBUG_FRAME_PREVIOUS = 29,
    DEBUG_FRAME_CODE = 30,
    DEBUG_FRAME_AT = 31,
    DEBUG_FRAME_OWNER = 33,
    DEBUG_CODE_FILE = 35,
    DEBUG_CODE_NAME = 36,
    DEBUG_CODE_BYTES = 43,
};

static bool layout_from_table(void)
{
    const uint64_t *table = dlsym(RTLD_DEFAULT, "_PyRuntime");
    struct layout found;

    if (table == NULL || memcmp(table, "xdebugpy", 8) != 0 ||
        table[DEBUG_VERSION] >> 16 != 0x030d || table[DEBUG_FREE_THREADED] != 0) {
        return false;
    }
    found = (struct layout){.state_cframe = SIZE_MAX,
                            .state_frame = table[DEBUG_STATE_FRAME],
                            .frame_code = table[DEBUG_FRAME_CODE],
                            .frame_previous = table[DEBUG_FRAME_PREVIOUS],
                            .frame_at = table[DEBUG_FRAME_AT],
                            .frame_owner = table[DEBUG_FRAME_OWNER],
                            .code_file = table[DEBUG_CODE_FILE],
                            .code_name = table[DEBUG_CODE_NAME],
                            .code_bytes = table[DEBUG_CODE_BYTES]};
    if (found.state_frame > 1024 || found.frame_code > 256 || found.frame_previous > 256 ||
        found.frame_at > 256 || found.frame_owner > 256 || found.code_file > 1024 ||
        found.code_name > 1024 || found.code_bytes > 1024) {
        return false;
    }
    layout = found;
    return true;
}

static bool choose_layout(unsigned minor)
{
    if (minor == 11 || minor == 12) {
        layout = minor == 11 ? layout_3_11 : layout_3_12;
        known_layout = minor;
        return true;
    }
    return minor == 13 && layout_from_table();
}

static inline uintptr_t word_at(uintptr_t base, size_t offset)
{
    return *(const uintptr_t *)(base + offset);
}

/* The thread state if it is this thread's own, else NULL. */
static inline void *own_state(void)
{
    void *state = py.state();

    if (BH_LIKELY(state != NULL) && py.own_state != NULL) {
        bool own = BH_LIKELY(state_thread != 0)
                       ? word_at((uintptr_t)state, state_thread) == (uintptr_t)pthread_self()
                       : py.own_state() == state;

        return own ? state : NULL;
    }
    return state;
}

static inline uintptr_t first_frame(void)
{
    uintptr_t base = (uintptr_t)own_state();

    if (BH_UNLIKELY(base == 0)) {
        return 0;
    }
    if (layout.state_cframe != SIZE_MAX) {
        base = word_at(base, layout.state_cframe);
        if (base == 0) {
            return 0;
        }
    }
    return word_at(base, layout.state_frame);
}

static inline __attribute__((always_inline)) bool is_python(uintptr_t frame, size_t owner)
{
    return owner == SIZE_MAX || *(const unsigned char *)(frame + owner) < OWNER_NOT_PYTHON;
}

static uint32_t raw_frames(struct bh_python_frame *ret_frames, uint32_t depth)
{
    uintptr_t frame;
    uint32_t count = 0;

    for (frame = first_frame(); frame != 0 && count < depth;
         frame = word_at(frame, layout.frame_previous)) {
        if (!is_python(frame, layout.frame_owner)) {
            continue;
        }
        ret_frames[count].code = word_at(frame, layout.frame_code);
        ret_frames[count].at = word_at(frame, layout.frame_at);
        count++;
    }
    return count;
}

static uint32_t public_frames(struct bh_python_frame *ret_frames, uint32_t depth)
{
    void *state = own_state();
    void *frame = state == NULL ? NULL : py.state_frame(state);
    uint32_t count = 0;

    while (frame != NULL) {
        void *back = NULL;

        if (count < depth) {
            void *code = py.frame_code(frame);

            ret_frames[count].code = (uintptr_t)code;
            /* with no instruction offset to be had (3.10), the line itself */
            ret_frames[count].at =
                (uintptr_t)(py.frame_lasti != NULL ? py.frame_lasti(frame) : py.frame_line(frame));
            py.decref(code); /* the frame holds it */
            count++;
            back = py.frame_back(frame);
        }
        py.decref(frame);
        frame = back;
    }
    return count;
}

uint32_t bh_python_frames(struct bh_python_frame *ret_frames, uint32_t depth)
{
    return bh_python_walk == BH_RING_WALK_RAW ? raw_frames(ret_frames, depth)
                                              : public_frames(ret_frames, depth);
}

static __attribute__((noinline)) uint64_t public_hash(uint32_t depth)
{
    struct bh_python_frame frames[BH_RING_DEPTH_MAX];
    uint32_t count = public_frames(frames, depth);
    uint64_t hash = 0;
    uint32_t at;

    for (at = 0; at < count; at++) {
        hash += frames[at].code * keys[2 * at] + frames[at].at * keys[2 * at + 1];
    }
    return hash;
}

/* Multilinear: each frame's instruction pointer, which lies in its code object and so tells that as
 * well, times a key of its own, summed. The sums do not wait for each other, so the walk costs
 * little more than following the chain. Made once for each layout that is known, whose offsets are
 * then part of the code. */
static inline __attribute__((always_inline)) uint64_t hash_chain(uintptr_t frame, uint32_t depth,
                                                                 const struct layout *as)
{
    const uint64_t *key = keys;
    const uint64_t *end = keys + depth;
    uint64_t hash = 0;

    for (; frame != 0 && key < end; frame = word_at(frame, as->frame_previous)) {
        if (BH_UNLIKELY(!is_python(frame, as->frame_owner))) {
            continue;
        }
        hash += word_at(frame, as->frame_at) * *key++;
    }
    return hash;
}

uint64_t bh_python_hash(uint32_t depth)
{
    if (BH_UNLIKELY(bh_python_walk != BH_RING_WALK_RAW)) {
        return public_hash(depth);
    }
    if (BH_LIKELY(known_layout == 11)) {
        return hash_chain(first_frame(), depth, &layout_3_11);
    }
    if (known_layout == 12) {
        return hash_chain(first_frame(), depth, &layout_3_12);
    }
    return hash_chain(first_frame(), depth, &layout);
}

/* ---- places ------------------------------------------------------------------------ */

/* Byte offset of the instruction in its code, as PyCode_Addr2Line takes it. */
static int instruction_offset(const struct bh_python_frame *frame)
{
    if (bh_python_walk == BH_RING_WALK_RAW) {
        return (int)(frame->at - (frame->code + layout.code_bytes));
    }
    return (int)frame->at;
}

/* The UTF-8 text of a str object, borrowed. A name with lone surrogates has none: "?". */
static const char *text_of(void *object, size_t *ret_bytes)
{
    void *type, *value, *trace;
    ssize_t bytes = 0;
    const char *text;

    py.error_fetch(&type, &value, &trace);
    text = object == NULL ? NULL : py.utf8(object, &bytes);
    py.error_restore(type, value, trace);
    if (text == NULL) {
        *ret_bytes = 1;
        return "?";
    }
    *ret_bytes = (size_t)bytes;
    return text;
}

/* An attribute that the code object itself keeps alive, so the reference can be given back. */
static void *borrowed_attribute(uintptr_t code, const char *name)
{
    void *object = py.attribute((void *)code, name);

    if (object != NULL) {
        py.decref(object);
    }
    return object;
}

void bh_python_place(const struct bh_python_frame *frame, struct bh_python_place *ret_place)
{
    void *file, *name;
    int line;

    if (bh_python_walk == BH_RING_WALK_RAW) {
        file = (void *)word_at(frame->code, layout.code_file);
        name = (void *)word_at(frame->code, layout.code_name);
    } else {
        file = borrowed_attribute(frame->code, "co_filename");
        name = borrowed_attribute(frame->code, "co_name");
    }
    ret_place->file = text_of(file, &ret_place->file_bytes);
    ret_place->function = text_of(name, &ret_place->function_bytes);
    line = py.frame_lasti == NULL ? (int)frame->at
                                  : py.code_line((void *)frame->code, instruction_offset(frame));
    ret_place->line = line < 0 ? 0 : (uint32_t)line;
}

void bh_python_keep(uintptr_t code)
{
    py.incref((void *)code);
}

/* ---- self-test ------------------------------------------------------------------------------ */

/* One frame of both walks: same code, same instruction, same line, same strings. */
static bool frame_agrees(const struct bh_python_frame *raw, void *frame)
{
    void *code = py.frame_code(frame);
    int offset = (int)(raw->at - (raw->code + layout.code_bytes));
    bool good = raw->code == (uintptr_t)code && offset == py.frame_lasti(frame) &&
                py.code_line(code, offset) == py.frame_line(frame) &&
                word_at(raw->code, layout.code_file) ==
                    (uintptr_t)borrowed_attribute((uintptr_t)code, "co_filename") &&
                word_at(raw->code, layout.code_name) ==
                    (uintptr_t)borrowed_attribute((uintptr_t)code, "co_name");

    py.decref(code);
    return good;
}

static bool raw_walk_agrees(void)
{
    struct bh_python_frame raw[TEST_FRAMES];
    uint32_t count = raw_frames(raw, TEST_FRAMES);
    uint32_t at = 0;
    bool good = count > 0 && py.frame_lasti != NULL;
    void *frame = py.state_frame(own_state());

    while (frame != NULL) {
        void *back = NULL;

        if (at < TEST_FRAMES) {
            good = good && at < count && frame_agrees(&raw[at], frame);
            at++;
            back = py.frame_back(frame);
        }
        py.decref(frame);
        frame = back;
    }
    return good && at == count;
}

static void make_keys(void)
{
    uint64_t state = 0x42756c6b68656164u; /* fixed: a hash is compared within one process only */
    size_t at;

    for (at = 0; at < sizeof(keys) / sizeof(keys[0]); at++) {
        uint64_t mixed = state += 0x9e3779b97f4a7c15u;

        mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
        keys[at] = (mixed ^ mixed >> 31) | 1;
    }
}

uint32_t bh_python_open(char *ret_version, size_t size)
{
    unsigned minor;
    size_t at;

    make_keys();
    if (!resolve(&minor)) {
        return BH_RING_WALK_NONE;
    }
    bh_emit_text(ret_version, size, py.version());
    for (at = 0; at < size && ret_version[at] != '\0'; at++) {
        if (ret_version[at] == ' ') {
            ret_version[at] = '\0';
            break;
        }
    }
    if (own_state() == NULL || strstr(py.version(), "free-threading") != NULL) {
        return BH_RING_WALK_NONE;
    }
    if (minor == 11 && word_at((uintptr_t)own_state(), STATE_THREAD_3_11) == pthread_self()) {
        state_thread = STATE_THREAD_3_11;
    }
    bh_python_walk =
        choose_layout(minor) && raw_walk_agrees() ? BH_RING_WALK_RAW : BH_RING_WALK_PUBLIC;
    return bh_python_walk;
}
