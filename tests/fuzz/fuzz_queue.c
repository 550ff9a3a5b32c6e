/* queue.bin as a decider that died may have left it: any head, tail, members, status and ring. The
 * first 16 bytes are head and tail, the rest is laid over the ring from the tail on. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/wire/le.h"
#include "core/wire/queue_map.h"

#define RUN_ID "0mhq2v9k3dx7c1p5n8tb"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t sum; /* so that the bytes are really read */
static int folder = -1;
static struct bh_queue *decider;

static char path[] = "/tmp/bulkhead-fuzz-XXXXXX";

static void clean(void)
{
    (void)bh_io_remove_tree(AT_FDCWD, path, NULL);
}

static void start(void)
{
    if (!mkdtemp(path) || atexit(clean) != 0 || bh_io_open_dir(AT_FDCWD, path, &folder, NULL) < 0 ||
        bh_queue_create(folder, RUN_ID, (struct bh_anchor){{1}, {2}}, &decider, NULL) < 0)
        abort();
}

static void fill(const uint8_t *data, size_t size)
{
    uint64_t tail = bh_le_get64(data + 8);
    uint64_t head = bh_le_get64(data);
    /* near each other, so that the reader gets somewhere */
    decider->words->head = (head & 1) != 0 ? head : tail + (head % (2 * BH_QUEUE_RING_BYTES));
    decider->words->tail = tail;
    decider->words->generation = head >> 3;
    decider->words->member_count = (uint32_t)(head >> 1);
    unsigned char *ring = decider->map + QUEUE_RING_AT;
    for (size_t i = 16; i < size; i++)
        ring[(tail + i - 16) & (BH_QUEUE_RING_BYTES - 1)] = data[i];
    size_t image = size - 16 < 2 * BH_STATUS_FILE_BYTES ? size - 16 : 2 * BH_STATUS_FILE_BYTES;
    memcpy(decider->map + QUEUE_STATUS_AT, data + 16, image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bh_queue_member members[BH_QUEUE_MEMBERS];
    struct bh_queue *queue = NULL;
    const unsigned char *bytes;
    size_t length;
    struct bh_status status;
    struct bh_record record;
    if (folder < 0)
        start();
    if (size < 16)
        return 0;
    fill(data, size);
    if (bh_queue_open(folder, RUN_ID, &queue, NULL) < 0)
        abort();
    while (bh_queue_peek(queue, &bytes, &length) == 1) {
        for (size_t i = 0; i < length; i++)
            sum += bytes[i];
        (void)bh_record_decode(bytes, length, RUN_ID, &record);
    }
    bh_queue_taken(queue);
    (void)bh_queue_status(queue, &status);
    (void)bh_queue_members(queue, members, BH_QUEUE_MEMBERS);
    struct bh_queue_scribe words;
    bh_queue_scribe(queue, &words);
    bh_queue_free(queue);
    return 0;
}
