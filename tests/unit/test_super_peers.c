/* Control connections on the scripted machine: framing, answers, slow and wrong peers. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#include "core/wire/journal.h"
#include "super_fixture.h"

#define S  BH_NS_PER_S
#define MS BH_NS_PER_MS

struct client {
    int fd;
    uint32_t sequence;
    unsigned char buffer[1 << 17];
    size_t length;
};

static struct client *connect_to(struct fixture *fixture)
{
    int fds[2];
    struct client *client = calloc(1, sizeof *client);
    if (!client)
        abort();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(bh_peers_adopt(&fixture->loop->peers, fds[0]), BH_OK);
    client->fd = fds[1];
    return client;
}

static void leave(struct client *client)
{
    (void)close(client->fd);
    free(client);
}

static void say(struct client *client, int type, const void *body, size_t length)
{
    unsigned char bytes[1024];
    struct bh_frame frame = {.type = (enum bh_msg)type,
                             .sequence = ++client->sequence,
                             .body = body,
                             .body_length = length};
    int whole = bh_frame_encode(&frame, bytes, sizeof bytes);
    assert_true(whole > 0);
    assert_int_equal(write(client->fd, bytes, (size_t)whole), whole);
}

/* The next frame; false when there is none now. The frame's body is valid until the next call. */
static bool hear(struct client *client, struct bh_frame *ret_frame)
{
    static unsigned char held[1 << 17];
    ssize_t n =
        read(client->fd, client->buffer + client->length, sizeof client->buffer - client->length);
    if (n > 0)
        client->length += (size_t)n;
    int whole = bh_frame_decode(client->buffer, client->length, ret_frame);
    assert_true(whole >= 0);
    if (whole == 0)
        return false;
    memcpy(held, client->buffer, (size_t)whole);
    client->length -= (size_t)whole;
    memmove(client->buffer, client->buffer + whole, client->length);
    (void)bh_frame_decode(held, (size_t)whole, ret_frame);
    return true;
}

static struct bh_frame answer(struct fixture *fixture, struct client *client)
{
    struct bh_frame frame = {0};
    for (int turns = 0; turns < 100; turns++) {
        (void)bh_loop_turn(fixture->loop);
        while (hear(client, &frame)) {
            if (frame.flags & BH_FRAME_REPLY)
                return frame;
        }
    }
    fail_msg("no answer");
    return frame;
}

static void hello(struct fixture *fixture, struct client *client)
{
    say(client, BH_MSG_HELLO, NULL, 0);
    assert_int_equal(answer(fixture, client).type, BH_MSG_WELCOME);
}

static int64_t refusal(struct bh_frame frame)
{
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    assert_int_equal(frame.type, BH_MSG_ERROR);
    assert_true(frame.flags & BH_FRAME_ERROR);
    bh_tlv_open(&reader, frame.body, frame.body_length);
    assert_int_equal(bh_tlv_next(&reader, &item), 1);
    assert_int_equal(item.tag, BH_TAG_ERROR);
    return (int64_t)item.number;
}

static struct bh_status status_in(struct bh_frame frame)
{
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    struct bh_status status = {0};
    bh_tlv_open(&reader, frame.body, frame.body_length);
    while (bh_tlv_next(&reader, &item) == 1) {
        if (item.tag == BH_TAG_STATUS)
            assert_int_equal(bh_status_file_decode(item.value, item.length, &status), BH_OK);
    }
    return status;
}

static void test_hello_first_then_status(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    struct client *client = connect_to(fixture);
    say(client, BH_MSG_STATUS, NULL, 0);
    assert_int_equal(refusal(answer(fixture, client)), BH_E_USAGE);
    hello(fixture, client);
    say(client, BH_MSG_STATUS, NULL, 0);
    struct bh_status status = status_in(answer(fixture, client));
    assert_int_equal(status.state, BH_JOB_RUNNING);
    assert_int_equal(status.root_pid, ROOT_PID);
    assert_int_equal(status.members, 1);
    assert_int_equal(status.charge.value, 100 * MIB);
    leave(client);
    fixture_free(fixture);
}

static void test_frames_in_pieces(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    struct client *client = connect_to(fixture);
    unsigned char bytes[64];
    struct bh_frame frame = {.type = BH_MSG_HELLO, .sequence = 1};
    int length = bh_frame_encode(&frame, bytes, sizeof bytes);
    for (int i = 0; i < length; i++) {
        assert_int_equal(write(client->fd, bytes + i, 1), 1);
        (void)bh_loop_turn(fixture->loop);
    }
    assert_int_equal(answer(fixture, client).type, BH_MSG_WELCOME);
    leave(client);
    fixture_free(fixture);
}

static void test_nonsense_is_dropped(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    struct client *bad = connect_to(fixture);
    struct client *good = connect_to(fixture);
    assert_int_equal(write(bad->fd, "nonsense that is no frame", 25), 25);
    hello(fixture, good);
    char byte;
    ssize_t n = read(bad->fd, &byte, 1);
    assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
    assert_int_equal(fixture->loop->peers.dropped, 1);
    leave(bad);
    leave(good);
    fixture_free(fixture);
}

static void test_request_longer_than_the_buffer_is_dropped(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    struct client *client = connect_to(fixture);
    unsigned char head[BH_FRAME_HEADER_BYTES] = {0x42, 0x48, 0x43, 0x46, 1, BH_MSG_STATUS, 0, 0,
                                                 1,    0,    0,    0,    0, 0x20,          0, 0};
    static unsigned char filler[8192];
    assert_int_equal(write(client->fd, head, sizeof head), sizeof head);
    assert_int_equal(write(client->fd, filler, sizeof filler), sizeof filler);
    for (int i = 0; i < 4; i++)
        (void)bh_loop_turn(fixture->loop);
    assert_int_equal(fixture->loop->peers.dropped, 1);
    leave(client);
    fixture_free(fixture);
}

static void test_watcher_that_never_reads_is_dropped(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    struct client *deaf = connect_to(fixture);
    hello(fixture, deaf);
    say(deaf, BH_MSG_WATCH, NULL, 0);
    (void)answer(fixture, deaf);
    struct bh_record record = bh_notes_begin(&fixture->loop->notes, BH_RECORD_TRANSITION);
    for (int i = 0; i < 20000 && fixture->loop->peers.dropped == 0; i++) {
        bh_peers_record(&fixture->loop->peers, &record);
        bh_peers_flush(&fixture->loop->peers);
    }
    assert_int_equal(fixture->loop->peers.dropped, 1);
    leave(deaf);
    fixture_free(fixture);
}

static void test_full_house(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    struct client *clients[BH_PEERS_MAX];
    for (int i = 0; i < BH_PEERS_MAX; i++)
        clients[i] = connect_to(fixture);
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(bh_peers_adopt(&fixture->loop->peers, fds[0]), BH_E_BUSY);
    (void)close(fds[0]);
    (void)close(fds[1]);
    for (int i = 0; i < BH_PEERS_MAX; i++)
        leave(clients[i]);
    fixture_free(fixture);
}

static void test_stop_is_passed_on_once(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->term_after_ns = UINT64_MAX;
    fixture_launch(fixture);
    struct client *client = connect_to(fixture);
    hello(fixture, client);
    for (int i = 0; i < 5; i++) {
        say(client, BH_MSG_STOP, NULL, 0);
        assert_int_equal(status_in(answer(fixture, client)).state, BH_JOB_STOPPING);
    }
    assert_int_equal(fixture->root->signals[SIGTERM], 1);
    assert_int_equal(fixture->root->signals[SIGKILL], 0);
    say(client, BH_MSG_KILL, NULL, 0);
    (void)fixture_run(fixture, S);
    fixture_expect_signal(fixture, 1, SIGKILL, "stop_requested");
    leave(client);
    fixture_free(fixture);
}

static void test_limits(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    struct client *client = connect_to(fixture);
    hello(fixture, client);
    unsigned char body[128];
    struct bh_tlv_writer writer;
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_u64(&writer, BH_TAG_LIMIT_BYTES, 2 * GIB);
    bh_tlv_u64(&writer, BH_TAG_REVISION, 4);
    say(client, BH_MSG_LIMITS, body, writer.length);
    assert_int_equal(refusal(answer(fixture, client)), BH_E_PRECONDITION_FAILED);
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_u64(&writer, BH_TAG_WARNING_BYTES, 2 * GIB);
    say(client, BH_MSG_LIMITS, body, writer.length);
    assert_int_equal(refusal(answer(fixture, client)), BH_E_INVALID_CONFIG);
    assert_int_equal(fixture_count(fixture, BH_RECORD_CONFIG_CHANGE), 0);
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_u64(&writer, BH_TAG_LIMIT_BYTES, 2 * GIB);
    bh_tlv_u64(&writer, BH_TAG_REVISION, 1);
    say(client, BH_MSG_LIMITS, body, writer.length);
    struct bh_status status = status_in(answer(fixture, client));
    assert_int_equal(status.limit_bytes, 2 * GIB);
    assert_int_equal(status.limits_revision, 2);
    assert_int_equal(fixture_get(fixture, BH_RECORD_CONFIG_CHANGE, 0)->config_change.revision, 2);
    leave(client);
    fixture_free(fixture);
}

static void test_commands_that_cannot_be(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->spec.mode = BH_MODE_OBSERVE;
    fixture_launch(fixture);
    struct client *client = connect_to(fixture);
    hello(fixture, client);
    say(client, BH_MSG_LIMITS, NULL, 0);
    assert_int_equal(refusal(answer(fixture, client)), BH_E_WRONG_STATE);
    say(client, BH_MSG_CHECKPOINT, NULL, 0);
    assert_int_equal(refusal(answer(fixture, client)), BH_E_CHECKPOINT_UNAVAILABLE);
    say(client, BH_MSG_SIGNAL, NULL, 0);
    assert_int_equal(refusal(answer(fixture, client)), BH_E_INVALID_VALUE);
    say(client, 99, NULL, 0);
    assert_int_equal(refusal(answer(fixture, client)), BH_E_UNSUPPORTED);
    unsigned char broken[] = {1, 0, 1, 0, 200, 0, 0, 0, 1};
    say(client, BH_MSG_STOP, broken, sizeof broken);
    assert_int_equal(refusal(answer(fixture, client)), BH_E_MALFORMED);
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    leave(client);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello_first_then_status),
        cmocka_unit_test(test_frames_in_pieces),
        cmocka_unit_test(test_nonsense_is_dropped),
        cmocka_unit_test(test_request_longer_than_the_buffer_is_dropped),
        cmocka_unit_test(test_watcher_that_never_reads_is_dropped),
        cmocka_unit_test(test_full_house),
        cmocka_unit_test(test_stop_is_passed_on_once),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_commands_that_cannot_be),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
