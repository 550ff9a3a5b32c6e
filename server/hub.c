#include "server/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAKE_MS    5u     /* a burst is one wake */
#define FILL_BYTES 32768u /* formatted ahead for one stream */

struct event {
    uint64_t number;
    unsigned type;
    char job_id[BH_JOB_ID_SIZE];
    uint64_t job_sequence;
    char *data; /* owned */
    size_t length;
};

struct stream {
    struct bh_source source; /* first member: a source is its stream */
    struct bh_hub *hub;
    struct stream *previous, *next;
    unsigned types;
    char job_id[BH_JOB_ID_SIZE];
    bool of_job;
    uint64_t position;   /* number of the next event to look at */
    uint64_t replay_end; /* samples below are old: left out */
    uint64_t after_sequence;
    struct bh_bytes pending;
    size_t sent; /* of pending */
    uint64_t last_ms;
    bool ended;
};

struct bh_hub {
    uv_loop_t *loop;
    uv_timer_t waker, beat;
    char epoch[16];
    struct event events[BH_HUB_MAX_EVENTS]; /* index = number % maximum */
    uint64_t oldest, next;                  /* numbers: [oldest, next) are there */
    size_t bytes;
    struct stream *streams;
    unsigned stream_count;
    bool waking, ended;
};

const char *bh_hub_type_text(unsigned type)
{
    static const char *const names[] = {"job",        "sample",   "transition", "signal",
                                        "checkpoint", "recorder", "log",        "host"};
    for (unsigned i = 0; i < 8; i++) {
        if (type == 1u << i)
            return names[i];
    }
    return "unknown";
}

void bh_hub_format(struct bh_bytes *out, const char *id, const char *type, const void *data,
                   size_t length)
{
    if (id)
        bh_bytes_printf(out, "id: %s\n", id);
    bh_bytes_printf(out, "event: %s\ndata: ", type);
    bh_bytes_append(out, data, length);
    bh_bytes_append(out, "\n\n", 2);
}

/* ---- waking ------------------------------------------------------------------------------------
 */

static void wake(struct stream *stream)
{
    if (stream->source.wake)
        stream->source.wake(stream->source.wake_data);
}

static void on_wake(uv_timer_t *timer)
{
    struct bh_hub *hub = timer->data;
    hub->waking = false;
    for (struct stream *at = hub->streams; at; at = at->next)
        wake(at);
}

static void on_beat(uv_timer_t *timer)
{
    struct bh_hub *hub = timer->data;
    uint64_t now = uv_now(hub->loop);
    for (struct stream *at = hub->streams; at; at = at->next) {
        if (now - at->last_ms < BH_HUB_BEAT_MS || at->pending.length > at->sent)
            continue;
        at->last_ms = now;
        bh_bytes_append_text(&at->pending, ": keep-alive\n\n");
        wake(at);
    }
}

int bh_hub_new(uv_loop_t *loop, const char *epoch, struct bh_hub **ret_hub)
{
    struct bh_hub *hub = calloc(1, sizeof *hub);
    if (!hub)
        return BH_E_NOMEM;
    hub->loop = loop;
    hub->oldest = hub->next = 1;
    (void)snprintf(hub->epoch, sizeof hub->epoch, "%s", epoch);
    (void)uv_timer_init(loop, &hub->waker);
    (void)uv_timer_init(loop, &hub->beat);
    hub->waker.data = hub->beat.data = hub;
    (void)uv_timer_start(&hub->beat, on_beat, 1000, 1000);
    *ret_hub = hub;
    return BH_OK;
}

void bh_hub_end(struct bh_hub *hub)
{
    static const char bye[] = "{\"reason\":\"server_exit\"}";
    hub->ended = true;
    for (struct stream *at = hub->streams; at; at = at->next) {
        bh_hub_format(&at->pending, NULL, "bye", bye, sizeof bye - 1);
        at->ended = true;
        wake(at);
    }
}

static void on_closed(uv_handle_t *handle)
{
    (void)handle; /* lives in the hub, freed after the loop */
}

void bh_hub_close(struct bh_hub *hub)
{
    uv_close((uv_handle_t *)&hub->waker, on_closed);
    uv_close((uv_handle_t *)&hub->beat, on_closed);
}

static void drop_oldest(struct bh_hub *hub)
{
    struct event *event = &hub->events[hub->oldest++ % BH_HUB_MAX_EVENTS];
    hub->bytes -= event->length;
    free(event->data);
    *event = (struct event){0};
}

void bh_hub_free(struct bh_hub *hub)
{
    if (!hub)
        return;
    while (hub->oldest < hub->next)
        drop_oldest(hub);
    free(hub);
}

/* ---- the ring ------------------------------------------------------------------------------- */

void bh_hub_publish(struct bh_hub *hub, unsigned type, const char *job_id, uint64_t job_sequence,
                    const void *data, size_t length)
{
    char *copy = malloc(length ? length : 1);
    if (!copy) {
        /* the number is used up, so that readers see a gap and fetch again */
        while (hub->oldest < hub->next)
            drop_oldest(hub);
        hub->oldest = ++hub->next;
        return;
    }
    memcpy(copy, data, length);
    while (hub->oldest < hub->next &&
           (hub->next - hub->oldest == BH_HUB_MAX_EVENTS || hub->bytes + length > BH_HUB_MAX_BYTES))
        drop_oldest(hub);
    struct event *event = &hub->events[hub->next % BH_HUB_MAX_EVENTS];
    *event = (struct event){.number = hub->next++,
                            .type = type,
                            .job_sequence = job_sequence,
                            .data = copy,
                            .length = length};
    if (job_id)
        (void)snprintf(event->job_id, sizeof event->job_id, "%s", job_id);
    hub->bytes += length;
    if (hub->streams && !hub->waking) {
        hub->waking = true;
        (void)uv_timer_start(&hub->waker, on_wake, WAKE_MS, 0);
    }
}

uint64_t bh_hub_next(const struct bh_hub *hub)
{
    return hub->next;
}

unsigned bh_hub_streams(const struct bh_hub *hub)
{
    return hub->stream_count;
}

/* ---- one stream ----------------------------------------------------------------------------- */

static bool wanted(const struct stream *stream, const struct event *event)
{
    if (!(event->type & stream->types))
        return false;
    if (stream->job_id[0] && strcmp(stream->job_id, event->job_id) != 0)
        return false;
    if (event->type == BH_EVENT_SAMPLE && event->number < stream->replay_end)
        return false;
    return !(stream->of_job && event->type != BH_EVENT_JOB && event->job_sequence &&
             event->job_sequence <= stream->after_sequence);
}

static void append_event(struct stream *stream, const struct event *event)
{
    char id[48];
    const char *shown = id;
    if (stream->of_job && event->job_sequence)
        (void)snprintf(id, sizeof id, "%llu", (unsigned long long)event->job_sequence);
    else if (!stream->of_job && event->type != BH_EVENT_SAMPLE)
        (void)snprintf(id, sizeof id, "%s.%llu", stream->hub->epoch,
                       (unsigned long long)event->number);
    else
        shown = NULL;
    bh_hub_format(&stream->pending, shown, bh_hub_type_text(event->type), event->data,
                  event->length);
}

static void append_gap(struct stream *stream)
{
    char data[128];
    char id[48];
    struct bh_hub *hub = stream->hub;
    int length = snprintf(data, sizeof data,
                          "{\"reason\":\"overrun\",\"missed\":%llu,\"resume\":\"fetch %s again\"}",
                          (unsigned long long)(hub->oldest - stream->position),
                          stream->of_job ? "the job" : "/v1/jobs");
    (void)snprintf(id, sizeof id, "%s.%llu", hub->epoch, (unsigned long long)(hub->oldest - 1));
    bh_hub_format(&stream->pending, stream->of_job ? NULL : id, "gap", data, (size_t)length);
    stream->position = hub->oldest;
}

static void fill(struct stream *stream)
{
    struct bh_hub *hub = stream->hub;
    if (stream->position < hub->oldest)
        append_gap(stream);
    while (stream->position < hub->next && stream->pending.length < FILL_BYTES) {
        const struct event *event = &hub->events[stream->position++ % BH_HUB_MAX_EVENTS];
        if (wanted(stream, event))
            append_event(stream, event);
    }
}

static int64_t read_stream(struct bh_source *source, char *buffer, size_t capacity)
{
    struct stream *stream = (struct stream *)source;
    if (stream->sent == stream->pending.length) {
        bh_bytes_clear(&stream->pending);
        stream->sent = 0;
        if (stream->ended)
            return BH_E_END;
        fill(stream);
    }
    if (stream->pending.failed)
        return BH_E_NOMEM;
    size_t left = stream->pending.length - stream->sent;
    size_t n = left < capacity ? left : capacity;
    if (n == 0)
        return 0;
    memcpy(buffer, stream->pending.data + stream->sent, n);
    stream->sent += n;
    stream->last_ms = uv_now(stream->hub->loop);
    return (int64_t)n;
}

static void free_stream(struct bh_source *source)
{
    struct stream *stream = (struct stream *)source;
    struct bh_hub *hub = stream->hub;
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        hub->streams = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
    hub->stream_count--;
    bh_bytes_done(&stream->pending);
    free(stream);
}

int bh_hub_stream(struct bh_hub *hub, const struct bh_stream_options *options,
                  struct bh_bytes *first, struct bh_source **ret_source)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return BH_E_NOMEM;
    *stream = (struct stream){.source = {.read = read_stream, .free = free_stream},
                              .hub = hub,
                              .next = hub->streams,
                              .types = options->types,
                              .of_job = options->of_job,
                              .position = options->from,
                              .replay_end = hub->next,
                              .after_sequence = options->after_sequence,
                              .last_ms = uv_now(hub->loop),
                              .ended = hub->ended};
    if (options->job_id)
        (void)snprintf(stream->job_id, sizeof stream->job_id, "%s", options->job_id);
    stream->pending = *first;
    *first = (struct bh_bytes){0};
    if (stream->next)
        stream->next->previous = stream;
    hub->streams = stream;
    hub->stream_count++;
    *ret_source = &stream->source;
    return BH_OK;
}
