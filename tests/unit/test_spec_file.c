/* spec.bin: everything of a spec comes back; damaged, cut, oversize and foreign ones do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/crc32c.h"
#include "core/wire/le.h"
#include "core/wire/spec_file.h"
#include "core/wire/tlv.h"
#include "records.h"
#include "scratch.h"

static const char *const arguments[] = {"/usr/bin/python3", "train.py", "", "--x=ä", NULL};
static const struct bh_text_pair environment[] = {{"A", "1"}, {"EMPTY", ""}};
static const struct bh_text_pair labels[] = {{"team", "vision"}};

static void fill_spec(struct bh_job_spec *spec)
{
    bh_job_spec_init(spec);
    (void)strcpy(spec->id, RECORDS_RUN_ID);
    spec->name = "leaky";
    spec->argv = arguments;
    spec->argc = 4;
    spec->cwd = "/work";
    spec->env = environment;
    spec->env_count = 2;
    spec->clear_env = true;
    spec->mode = BH_MODE_ENFORCE;
    spec->limit_bytes = 1073741824;
    spec->breach_hold_ns = 5;
    spec->wall_time_ns = 7200000000000;
    spec->checkpoint_kind = BH_CHECKPOINT_SIGNAL;
    spec->checkpoint_signal = 10;
    spec->checkpoint_path = "out/ckpt.safetensors";
    spec->checkpoint_process_python = true;
    spec->checkpoint_repeat = true;
    spec->emergency_action = BH_EMERGENCY_TERM;
    spec->brake = true;
    spec->record = true;
    spec->labels = labels;
    spec->label_count = 1;
    spec->end_with_server = true;
    spec->owner_pid = 77;
    spec->owner_start_token = 78;
    spec->stop_with_owner = true;
    spec->force = true;
    spec->min_size_bytes = 64;
    spec->created_at.us = 1796002200085000;
    spec->recorder_path = "/usr/lib/bulkhead/libbulkhead-record.so";
    spec->relaunch_of = "0mhq2v9k3dx7c1p5n8ta";
    assert_int_equal(bh_job_spec_resolve(spec, NULL), BH_OK);
}

static void check_numbers(const struct bh_job_spec *left, const struct bh_job_spec *right)
{
    /* all that is no pointer: compared by encoding both without their texts */
    struct bh_job_spec a = *left, b = *right;
    struct bh_job_spec *both[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        both[i]->name = both[i]->cwd = both[i]->checkpoint_path = NULL;
        both[i]->recorder_path = both[i]->relaunch_of = NULL;
        both[i]->argc = both[i]->env_count = both[i]->label_count = 0;
    }
    struct bh_bytes one = {0}, two = {0};
    assert_int_equal(bh_spec_file_encode(&a, &one, NULL), BH_OK);
    assert_int_equal(bh_spec_file_encode(&b, &two, NULL), BH_OK);
    assert_int_equal(one.length, two.length);
    assert_memory_equal(one.data, two.data, one.length);
    bh_bytes_done(&one);
    bh_bytes_done(&two);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct bh_job_spec spec, *back = NULL;
    struct bh_bytes bytes = {0};
    fill_spec(&spec);
    assert_int_equal(bh_spec_file_encode(&spec, &bytes, NULL), BH_OK);
    assert_true(golden_equal("wire/spec.bin", bytes.data, bytes.length));
    assert_int_equal(bh_spec_file_decode(bytes.data, bytes.length, &back, NULL), BH_OK);
    check_numbers(&spec, back);
    assert_string_equal(back->id, spec.id);
    assert_string_equal(back->name, "leaky");
    assert_string_equal(back->cwd, "/work");
    assert_string_equal(back->checkpoint_path, "out/ckpt.safetensors");
    assert_string_equal(back->recorder_path, spec.recorder_path);
    assert_string_equal(back->relaunch_of, spec.relaunch_of);
    assert_int_equal(back->argc, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(back->argv[i], arguments[i]);
    assert_null(back->argv[4]);
    assert_int_equal(back->env_count, 2);
    assert_string_equal(back->env[1].key, "EMPTY");
    assert_string_equal(back->env[1].value, "");
    assert_int_equal(back->label_count, 1);
    assert_string_equal(back->labels[0].value, "vision");
    bh_spec_file_free(back);
    bh_bytes_done(&bytes);
}

static void test_smallest(void **state)
{
    (void)state;
    struct bh_job_spec spec, *back = NULL;
    struct bh_bytes bytes = {0};
    memset(&spec, 0, sizeof spec);
    (void)strcpy(spec.id, RECORDS_RUN_ID);
    assert_int_equal(bh_spec_file_encode(&spec, &bytes, NULL), BH_OK);
    assert_int_equal(bh_spec_file_decode(bytes.data, bytes.length, &back, NULL), BH_OK);
    assert_null(back->name);
    assert_int_equal(back->argc, 0);
    assert_null(back->argv[0]);
    bh_spec_file_free(back);
    bh_bytes_done(&bytes);
}

static void test_damaged(void **state)
{
    (void)state;
    struct bh_job_spec spec, *back = NULL;
    struct bh_bytes bytes = {0};
    struct bh_diag diag;
    fill_spec(&spec);
    assert_int_equal(bh_spec_file_encode(&spec, &bytes, NULL), BH_OK);
    for (size_t cut = 0; cut < bytes.length; cut++)
        assert_true(bh_spec_file_decode(bytes.data, cut, &back, &diag) < 0);
    for (size_t at = 0; at < bytes.length; at++) {
        bytes.data[at] ^= 1;
        assert_true(bh_spec_file_decode(bytes.data, bytes.length, &back, &diag) < 0);
        bytes.data[at] ^= 1;
    }
    bh_bytes_append(&bytes, "x", 1); /* trailing bytes are no spec either */
    assert_int_equal(bh_spec_file_decode(bytes.data, bytes.length, &back, &diag), BH_E_TRUNCATED);
    assert_null(back);
    bh_bytes_done(&bytes);
}

/* A body of our own making with valid checksums. */
static int decode_body(const unsigned char *body, size_t length)
{
    static unsigned char bytes[65536];
    struct bh_job_spec *back = NULL;
    memset(bytes, 0, BH_SPEC_FILE_HEADER_BYTES);
    bh_le_put32(bytes, BH_SPEC_FILE_MAGIC);
    bh_le_put16(bytes + 4, BH_SPEC_FILE_VERSION);
    bh_le_put16(bytes + 6, BH_SPEC_FILE_HEADER_BYTES);
    bh_le_put32(bytes + 12, (uint32_t)length);
    bh_le_put32(bytes + 16, bh_crc32c(0, body, length));
    bh_le_put32(bytes + 20, bh_crc32c(0, bytes, 20));
    memcpy(bytes + BH_SPEC_FILE_HEADER_BYTES, body, length);
    int result = bh_spec_file_decode(bytes, BH_SPEC_FILE_HEADER_BYTES + length, &back, NULL);
    if (result == BH_OK)
        bh_spec_file_free(back);
    return result;
}

static void test_hostile_bodies(void **state)
{
    (void)state;
    static unsigned char body[60000];
    struct bh_tlv_writer writer;
    /* an id is needed */
    assert_int_equal(decode_body(body, 0), BH_E_MALFORMED);
    /* unknown members are skipped, required ones are not */
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_text(&writer, 1, RECORDS_RUN_ID);
    bh_tlv_u64(&writer, 99, 5);
    assert_int_equal(decode_body(body, writer.length), BH_OK);
    bh_tlv_u64(&writer, 99 | BH_TLV_REQUIRED, 5);
    assert_int_equal(decode_body(body, writer.length), BH_E_VERSION);
    /* a NUL inside a text, a pair without a key, a wrong kind, a number out of range */
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_text(&writer, 1, RECORDS_RUN_ID);
    size_t start = writer.length;
    bh_tlv_text(&writer, 140, "a?b");
    body[writer.length - 2] = 0;
    assert_int_equal(decode_body(body, writer.length), BH_E_MALFORMED);
    writer.length = start;
    bh_tlv_group_end(&writer, bh_tlv_group(&writer, 141));
    assert_int_equal(decode_body(body, writer.length), BH_E_MALFORMED);
    writer.length = start;
    bh_tlv_u64(&writer, 140, 5);
    assert_int_equal(decode_body(body, writer.length), BH_E_MALFORMED);
    writer.length = start;
    bh_tlv_u64(&writer, 3, 99);
    assert_int_equal(decode_body(body, writer.length), BH_E_MALFORMED);
    /* one group that claims many texts may not run over what was counted for it */
    writer.length = start;
    size_t group = bh_tlv_group(&writer, 141);
    for (int i = 0; i < 500; i++)
        bh_tlv_text(&writer, 1, "k");
    bh_tlv_group_end(&writer, group);
    assert_int_equal(decode_body(body, writer.length), BH_OK);
    /* too many entries */
    writer.length = start;
    for (int i = 0; i < BH_SPEC_MAX_ARGUMENTS + 1; i++)
        bh_tlv_text(&writer, 140, "a");
    assert_false(writer.overflow);
    assert_int_equal(decode_body(body, writer.length), BH_E_TOO_LONG);
}

static void test_too_large(void **state)
{
    (void)state;
    struct bh_job_spec spec;
    struct bh_bytes bytes = {0};
    struct bh_diag diag;
    static char huge[BH_SPEC_MAX_BYTES + 2];
    const char *const one[] = {huge, NULL};
    memset(huge, 'x', sizeof huge - 1);
    fill_spec(&spec);
    spec.argv = one;
    spec.argc = 1;
    assert_int_equal(bh_spec_file_encode(&spec, &bytes, &diag), BH_E_TOO_LONG);
    assert_int_equal(bytes.length, 0);
    spec.argc = BH_SPEC_MAX_ARGUMENTS + 1;
    assert_int_equal(bh_spec_file_encode(&spec, &bytes, &diag), BH_E_TOO_LONG);
    assert_string_equal(diag.field, "command");
    bh_bytes_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_damaged),    cmocka_unit_test(test_hostile_bodies),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
