/* Control frames: round trip, golden bytes, partial streams, foreign bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/wire/frame.h"
#include "core/wire/le.h"
#include "core/wire/status_file.h"
#include "records.h"
#include "scratch.h"

static int welcome(unsigned char *data, size_t capacity)
{
    unsigned char body[512], status_bytes[BH_STATUS_FILE_BYTES];
    struct bh_status status;
    struct bh_tlv_writer writer;
    memset(&status, 0, sizeof status);
    fill_status(&status);
    bh_status_file_encode(&status, status_bytes);
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_u64(&writer, BH_TAG_VERSION, BH_FRAME_VERSION);
    bh_tlv_text(&writer, BH_TAG_RUN_ID, RECORDS_RUN_ID);
    bh_tlv_bytes(&writer, BH_TAG_STATUS, status_bytes, sizeof status_bytes);
    struct bh_frame frame = {
        .type = BH_MSG_WELCOME,
        .flags = BH_FRAME_REPLY,
        .sequence = 7,
        .body = body,
        .body_length = writer.length,
    };
    return bh_frame_encode(&frame, data, capacity);
}

static void test_round_trip(void **state)
{
    (void)state;
    unsigned char data[1024];
    struct bh_frame frame;
    int length = welcome(data, sizeof data);
    assert_true(length > 0);
    assert_true(golden_equal("wire/frame_welcome.bin", data, (size_t)length));
    for (int cut = 0; cut < length; cut++)
        assert_int_equal(bh_frame_decode(data, (size_t)cut, &frame), 0);
    assert_int_equal(bh_frame_decode(data, sizeof data, &frame), length);
    assert_int_equal(frame.type, BH_MSG_WELCOME);
    assert_int_equal(frame.flags, BH_FRAME_REPLY);
    assert_int_equal(frame.sequence, 7);
    assert_int_equal(frame.body_length, length - BH_FRAME_HEADER_BYTES);
    assert_int_equal(welcome(data, (size_t)length - 1), BH_E_TOO_LONG);
}

static void test_refused(void **state)
{
    (void)state;
    unsigned char data[1024];
    struct bh_frame frame;
    int length = welcome(data, sizeof data);
    data[0] ^= 1;
    assert_int_equal(bh_frame_decode(data, (size_t)length, &frame), BH_E_MALFORMED);
    data[0] ^= 1;
    data[4] = 2;
    assert_int_equal(bh_frame_decode(data, (size_t)length, &frame), BH_E_VERSION);
    data[4] = 1;
    bh_le_put32(data + 12, BH_FRAME_MAX_BODY + 1);
    assert_int_equal(bh_frame_decode(data, (size_t)length, &frame), BH_E_MALFORMED);
}

static void test_largest(void **state)
{
    (void)state;
    static unsigned char body[BH_FRAME_MAX_BODY + 1], data[BH_FRAME_MAX_BODY + 64];
    struct bh_frame frame = {.type = BH_MSG_BYE, .body = body, .body_length = BH_FRAME_MAX_BODY};
    assert_int_equal(bh_frame_encode(&frame, data, sizeof data),
                     BH_FRAME_HEADER_BYTES + BH_FRAME_MAX_BODY);
    frame.body_length++;
    assert_int_equal(bh_frame_encode(&frame, data, sizeof data), BH_E_TOO_LONG);
    assert_string_equal(bh_msg_text(BH_MSG_EV_FINAL), "EV_FINAL");
    assert_string_equal(bh_msg_text(99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
