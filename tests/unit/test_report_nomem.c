/* Memory runs out at every allocation in turn: spec, journal reader, fold, rendering, store. Each
 * ends with a typed error, nothing half done is claimed. Under AddressSanitizer the allocator is
 * not ours: there the same calls run once, without failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/super/finish.h"
#include "run_dir.h"

static long left = -1; /* allocations until one fails; -1: none fails */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_FAIL 0
#else
#define CAN_FAIL 1

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static bool fails(void)
{
    if (left < 0)
        return false;
    return left-- == 0;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}
#endif

/* Calls work with the Nth allocation failing, for every N until it gets by without; returns how
 * many had to fail. */
static int for_every_allocation(int (*work)(void *context), void *context)
{
    for (int n = 0;; n++) {
        left = CAN_FAIL ? n : -1;
        int result = work(context);
        bool reached = CAN_FAIL && left < 0;
        left = -1;
        if (!reached) {
            assert_int_equal(result, BH_OK);
            return n;
        }
        if (result != BH_OK) /* some allocations can be done without (buffers of libc) */
            assert_int_equal(result, BH_E_NOMEM);
        assert_true(n < 10000);
    }
}

static int spec_work(void *context)
{
    struct run_dir *dir = context;
    struct bh_bytes bytes = {0};
    struct bh_job_spec *spec = NULL;
    int result = bh_spec_file_encode(&dir->spec, &bytes, NULL);
    if (result == BH_OK)
        result = bh_spec_file_decode(bytes.data, bytes.length, &spec, NULL);
    bh_spec_file_free(spec);
    bh_bytes_done(&bytes);
    return result;
}

static int report_work(void *context)
{
    struct run_dir *dir = context;
    (void)unlinkat(dir->run.fd, BH_RUN_REPORT_NAME, 0);
    int result = bh_finish_report(dir->run.fd, dir->run.fd, NULL);
    bool there = faccessat(dir->run.fd, BH_RUN_REPORT_NAME, F_OK, 0) == 0;
    if (there != (result == BH_OK))
        abort();
    return result;
}

static int sentence_work(void *context)
{
    struct run_dir *dir = context;
    char text[400];
    return bh_finish_sentence(dir->run.fd, text, sizeof text, NULL);
}

static int queue_work(void *context)
{
    struct run_dir *dir = context;
    struct bh_queue *queue = NULL;
    int result = bh_queue_open(dir->runtime.fd, RECORDS_RUN_ID, &queue, NULL);
    bh_queue_free(queue);
    return result;
}

static void test_every_allocation(void **state)
{
    (void)state;
    struct run_dir *dir = calloc(1, sizeof *dir);
    struct bh_store *store = calloc(1, sizeof *store);
    run_dir_open(dir);
    run_dir_begin(dir, (int)getpid());
    run_dir_end(dir);
    assert_int_equal(bh_store_open(store, &dir->state, dir->state.queue, NULL), BH_OK);
    (void)bh_store_take(store);
    bh_store_close(store);
    free(store);
    int failed = for_every_allocation(spec_work, dir);
    assert_true(failed >= 2 * CAN_FAIL);
    failed = for_every_allocation(report_work, dir);
    assert_true(failed >= 4 * CAN_FAIL); /* reader, report, the text as it grows */
    assert_true(for_every_allocation(sentence_work, dir) >= 2 * CAN_FAIL);
    assert_true(for_every_allocation(queue_work, dir) >= CAN_FAIL);
    run_dir_close(dir);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
