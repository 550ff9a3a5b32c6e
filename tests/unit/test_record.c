/* Every record kind: round trip, golden bytes, damaged bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/wire/journal.h"
#include "core/wire/tlv.h"
#include "core/wire/le.h"
#include "core/base/crc32c.h"
#include "records.h"
#include "scratch.h"

/* Padding is nobody's member: cleared before two records are compared byte by byte, so that a
 * member missing from a table shows. */
static void clear_padding(struct bh_record *record)
{
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    switch (record->kind) {
#define CLEAR(kind, member)                                                                        \
    case BH_RECORD_##kind:                                                                         \
        __builtin_clear_padding(&record->member);                                                  \
        break;
        CLEAR(CONFIG, config)
        CLEAR(HOST, host)
        CLEAR(LAUNCHED, launched)
        CLEAR(SAMPLES, samples)
        CLEAR(SAMPLE, sample)
        CLEAR(LIMIT_CROSSED, limit_crossed)
        CLEAR(CONFIG_CHANGE, config_change)
        CLEAR(CLOCK_GAP, clock_gap)
        CLEAR(TRANSITION, transition)
        CLEAR(SIGNAL, signal)
        CLEAR(CHECKPOINT, checkpoint)
        CLEAR(ESCAPE, member)
        CLEAR(MEMBER, member)
        CLEAR(ADVISORY, advisory)
        CLEAR(LOSSES, losses)
        CLEAR(ARTIFACT_ERROR, artifact_error)
        CLEAR(OUTCOME, outcome)
        CLEAR(PEAK_MEMBER, peak_member)
        CLEAR(RECORDER, recorder)
        CLEAR(MARK, mark)
        CLEAR(EMPTY, empty)
#undef CLEAR
    }
    return;
#endif
#endif
    /* without the builtin: at least the encoded bytes are compared */
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    int length = bh_record_encode(record, RECORDS_RUN_ID, bytes, sizeof bytes);
    (void)bh_record_decode(bytes, (size_t)length, RECORDS_RUN_ID, record);
}

static void test_round_trip(void **state)
{
    (void)state;
    for (int kind = 1; kind <= RECORDS_KINDS; kind++) {
        unsigned char bytes[BH_JOURNAL_MAX_RECORD];
        struct bh_record record = record_of_kind(kind, (uint64_t)kind), back;
        record.by_scribe = kind % 2 == 0;
        record.pool = (uint8_t)(kind % 3);
        int length = bh_record_encode(&record, RECORDS_RUN_ID, bytes, sizeof bytes);
        assert_true(length > 0);
        memset(&back, 0xaa, sizeof back);
        assert_int_equal(bh_record_decode(bytes, (size_t)length, RECORDS_RUN_ID, &back), length);
        clear_padding(&record);
        clear_padding(&back);
        assert_memory_equal(&back, &record, sizeof record);
    }
}

static void test_golden(void **state)
{
    (void)state;
    for (int kind = 1; kind <= RECORDS_KINDS; kind++) {
        unsigned char bytes[BH_JOURNAL_MAX_RECORD];
        char name[64];
        struct bh_record record = record_of_kind(kind, (uint64_t)kind);
        int length = bh_record_encode(&record, RECORDS_RUN_ID, bytes, sizeof bytes);
        (void)snprintf(name, sizeof name, "wire/record_%02d_%s.bin", kind,
                       bh_record_kind_text(kind));
        assert_true(length > 0);
        assert_true(golden_equal(name, bytes, (size_t)length));
    }
}

/* Zero members are not written, and come back as zero whatever the caller's memory held. */
static void test_empty_members(void **state)
{
    (void)state;
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    struct bh_record record, back;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_OUTCOME;
    record.sequence = 1;
    assert_int_equal(bh_record_encode(&record, RECORDS_RUN_ID, bytes, sizeof bytes),
                     BH_JOURNAL_RECORD_BYTES);
    memset(&back, 0xff, sizeof back);
    assert_int_equal(bh_record_decode(bytes, sizeof bytes, RECORDS_RUN_ID, &back),
                     BH_JOURNAL_RECORD_BYTES);
    assert_memory_equal(&back, &record, sizeof record);
}

static void test_every_cut_and_flip(void **state)
{
    (void)state;
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    struct bh_record record = record_of_kind(BH_RECORD_SIGNAL, 9), back;
    int length = bh_record_encode(&record, RECORDS_RUN_ID, bytes, sizeof bytes);
    for (int cut = 0; cut < length; cut++)
        assert_int_equal(bh_record_decode(bytes, (size_t)cut, RECORDS_RUN_ID, &back), 0);
    for (int at = 0; at < length; at++) {
        bytes[at] ^= 0x20;
        assert_true(bh_record_decode(bytes, (size_t)length, RECORDS_RUN_ID, &back) <= 0);
        bytes[at] ^= 0x20;
    }
    /* another run's record does not pass */
    assert_int_equal(bh_record_decode(bytes, (size_t)length, "1mhq2v9k3dx7c1p5n8tb", &back),
                     BH_E_CHECKSUM);
}

static void seal(unsigned char *bytes, size_t length)
{
    uint32_t seed = bh_crc32c(0, RECORDS_RUN_ID, 20);
    bh_le_put32(bytes + length - 4, bh_crc32c(seed, bytes, length - 4));
}

/* A later version's kinds and members are skipped, unless they are marked as required. */
static void test_later_versions(void **state)
{
    (void)state;
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    struct bh_record record = record_of_kind(BH_RECORD_CLOCK_GAP, 3), back;
    size_t length = (size_t)bh_record_encode(&record, RECORDS_RUN_ID, bytes, sizeof bytes);
    bh_le_put16(bytes + 4, 999);
    seal(bytes, length);
    assert_int_equal(bh_record_decode(bytes, length, RECORDS_RUN_ID, &back), length);
    assert_int_equal(back.kind, 999);
    assert_string_equal(bh_record_kind_text((int)back.kind), "unknown");
    bh_le_put16(bytes + 6, 1);
    seal(bytes, length);
    assert_int_equal(bh_record_decode(bytes, length, RECORDS_RUN_ID, &back), BH_E_VERSION);

    length = (size_t)bh_record_encode(&record, RECORDS_RUN_ID, bytes, sizeof bytes);
    bh_le_put16(bytes + 32, 999);
    seal(bytes, length);
    assert_int_equal(bh_record_decode(bytes, length, RECORDS_RUN_ID, &back), length);
    assert_int_equal(back.clock_gap.gap_ns, 0);
    bh_le_put16(bytes + 32, 999 | BH_TLV_REQUIRED);
    seal(bytes, length);
    assert_int_equal(bh_record_decode(bytes, length, RECORDS_RUN_ID, &back), BH_E_VERSION);
}

/* Values that do not fit their member are refused, not cut. */
static void test_ranges(void **state)
{
    (void)state;
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    struct bh_record record, back;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_CHECKPOINT;
    record.checkpoint.word = BH_CKPT_READY;
    size_t length = (size_t)bh_record_encode(&record, RECORDS_RUN_ID, bytes, sizeof bytes);
    bytes[32 + 8] = BH_CKPT_READY + 1;
    seal(bytes, length);
    assert_int_equal(bh_record_decode(bytes, length, RECORDS_RUN_ID, &back), BH_E_MALFORMED);

    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_EMPTY;
    record.empty.proven = true;
    length = (size_t)bh_record_encode(&record, RECORDS_RUN_ID, bytes, sizeof bytes);
    bytes[32 + 8] = 2;
    seal(bytes, length);
    assert_int_equal(bh_record_decode(bytes, length, RECORDS_RUN_ID, &back), BH_E_MALFORMED);
}

static void test_too_long(void **state)
{
    (void)state;
    unsigned char bytes[64];
    struct bh_record record = record_of_kind(BH_RECORD_CONFIG, 1);
    assert_int_equal(bh_record_encode(&record, RECORDS_RUN_ID, bytes, sizeof bytes), BH_E_TOO_LONG);
    assert_int_equal(bh_record_encode(&record, RECORDS_RUN_ID, bytes, 8), BH_E_TOO_LONG);
    record.kind = (enum bh_record_kind)99;
    assert_int_equal(bh_record_encode(&record, RECORDS_RUN_ID, bytes, sizeof bytes),
                     BH_E_MALFORMED);
}

static void test_texts(void **state)
{
    (void)state;
    assert_string_equal(bh_record_kind_text(BH_RECORD_CONFIG_CHANGE), "config_change");
    assert_true(bh_record_kind_syncs(BH_RECORD_TRANSITION));
    assert_true(bh_record_kind_syncs(BH_RECORD_OUTCOME));
    assert_false(bh_record_kind_syncs(BH_RECORD_SAMPLES));
    assert_false(bh_record_kind_syncs(99));
    assert_string_equal(bh_signal_target_text(BH_TARGET_TREE), "owned_process_group");
    assert_string_equal(bh_signal_result_text(BH_SIGNAL_PROCESS_MISSING), "process_missing");
    assert_string_equal(bh_signal_result_text(0), "unknown");
    assert_string_equal(bh_checkpoint_word_text(BH_CKPT_ACKNOWLEDGED),
                        "acknowledged_unverified_durability");
    assert_string_equal(bh_member_event_text(-1), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_golden),
        cmocka_unit_test(test_empty_members),  cmocka_unit_test(test_every_cut_and_flip),
        cmocka_unit_test(test_later_versions), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_too_long),       cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
