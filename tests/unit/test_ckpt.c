/* The checkpoint socket's frames: fixed bytes, and everything that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/wire/ckpt.h"

static struct bh_ckpt_frame ack(void)
{
    struct bh_ckpt_frame frame = {.kind = BH_CKPT_KIND_ACK,
                                  .request_id = 0x0102030405060708ull,
                                  .status = BH_CKPT_STATUS_COMPLETED,
                                  .artifact_kind = 1,
                                  .has_size = true,
                                  .size_bytes = 0x1122334455667788ull};
    for (size_t i = 0; i < sizeof frame.nonce; i++)
        frame.nonce[i] = (unsigned char)i;
    return frame;
}

static void test_acknowledgement_bytes(void **state)
{
    (void)state;
    static const unsigned char head[] = {0, 0, 0, 57, 'M', 'G', 'C', 'P', 1, 2};
    static const unsigned char tail[] = {1, 2,    3,    4,    5,    6,    7,    8,    1,   1,
                                         1, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};
    struct bh_ckpt_frame frame = ack();
    unsigned char bytes[BH_CKPT_MAX_FRAME];
    assert_int_equal(bh_ckpt_encode(&frame, bytes), 61);
    assert_memory_equal(bytes, head, sizeof head);
    assert_memory_equal(bytes + 10, frame.nonce, 32);
    assert_memory_equal(bytes + 42, tail, sizeof tail);
}

static void test_round_trips(void **state)
{
    (void)state;
    static const enum bh_ckpt_kind kinds[] = {BH_CKPT_KIND_REQUEST, BH_CKPT_KIND_ACK,
                                              BH_CKPT_KIND_HELLO, BH_CKPT_KIND_WORKER_READY};
    static const int lengths[] = {58, 61, 42, 42};
    for (size_t i = 0; i < 4; i++) {
        struct bh_ckpt_frame frame = ack(), read;
        unsigned char bytes[BH_CKPT_MAX_FRAME];
        frame.kind = kinds[i];
        frame.deadline_ns = 99;
        assert_int_equal(bh_ckpt_encode(&frame, bytes), lengths[i]);
        for (int cut = 0; cut < lengths[i]; cut++)
            assert_int_equal(bh_ckpt_decode(bytes, (size_t)cut, &read), 0);
        assert_int_equal(bh_ckpt_decode(bytes, (size_t)lengths[i], &read), lengths[i]);
        assert_int_equal(read.kind, kinds[i]);
        assert_memory_equal(read.nonce, frame.nonce, sizeof read.nonce);
    }
}

static void refuse(size_t at, unsigned char value, int error)
{
    struct bh_ckpt_frame frame = ack(), read;
    unsigned char bytes[BH_CKPT_MAX_FRAME] = {0};
    int length = bh_ckpt_encode(&frame, bytes);
    bytes[at] = value;
    assert_int_equal(bh_ckpt_decode(bytes, (size_t)length, &read), error);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse(4, 'X', BH_E_MALFORMED);
    refuse(8, 2, BH_E_VERSION);
    refuse(9, 5, BH_E_MALFORMED);
    refuse(9, 3, BH_E_MALFORMED); /* a hello of an acknowledgement's length */
    refuse(3, 129, BH_E_TOO_LONG);
    refuse(3, 5, BH_E_TOO_LONG); /* shorter than the prefix: no frame at all */
    refuse(2, 1, BH_E_TOO_LONG);
    refuse(50, 0, BH_E_MALFORMED); /* status */
    refuse(50, 4, BH_E_MALFORMED);
    refuse(51, 4, BH_E_MALFORMED); /* artifact kind */
    refuse(51, 0, BH_E_MALFORMED); /* none, but with a size */
    refuse(52, 2, BH_E_MALFORMED); /* has-size */
    refuse(52, 0, BH_E_MALFORMED); /* a size without has-size */
}

static void test_zero_id_is_malformed(void **state)
{
    (void)state;
    struct bh_ckpt_frame frame = ack(), read;
    unsigned char bytes[BH_CKPT_MAX_FRAME];
    frame.request_id = 0;
    int length = bh_ckpt_encode(&frame, bytes);
    assert_int_equal(bh_ckpt_decode(bytes, (size_t)length, &read), BH_E_MALFORMED);
    frame = ack();
    frame.kind = BH_CKPT_KIND_REQUEST;
    frame.deadline_ns = 0;
    length = bh_ckpt_encode(&frame, bytes);
    assert_int_equal(bh_ckpt_decode(bytes, (size_t)length, &read), BH_E_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acknowledgement_bytes),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_zero_id_is_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
