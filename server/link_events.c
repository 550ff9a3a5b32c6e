#include "server/link_events.h"

#include <stdio.h>
#include <string.h>

#include "api/view_json.h"
#include "core/base/log.h"
#include "core/wire/journal.h"
#include "core/wire/record_codec.h"
#include "core/wire/status_file.h"
#include "server/sup_link.h"
#include "server/supervise.h"

/* Finds one item by its tag. */
static bool find(const struct bh_frame *frame, uint16_t tag, struct bh_tlv_item *ret_item)
{
    struct bh_tlv_reader reader;
    bh_tlv_open(&reader, frame->body, frame->body_length);
    while (bh_tlv_next(&reader, ret_item) > 0) {
        if (ret_item->tag == tag)
            return true;
    }
    return false;
}

void bh_link_take_status(struct bh_job *job, const struct bh_frame *frame)
{
    struct bh_tlv_item item;
    struct bh_status status;
    if (find(frame, BH_TAG_STATUS, &item) &&
        bh_status_file_decode(item.value, item.length, &status) >= 0)
        bh_jobs_take_status(job, &status);
}

static int take_record(struct bh_job *job, const struct bh_frame *frame)
{
    struct bh_tlv_item item;
    struct bh_record record;
    if (!find(frame, BH_TAG_RECORD, &item))
        return BH_E_MALFORMED;
    int length = bh_record_decode(item.value, item.length, job->id, &record);
    if (length == BH_E_MALFORMED)
        return BH_OK; /* of a newer version: the journal has it all the same */
    if (length <= 0)
        return BH_E_MALFORMED;
    bh_jobs_take_record(job, &record);
    if (record.kind == BH_RECORD_TRANSITION)
        bh_link_ask_waiting(job);
    return BH_OK;
}

/* A whole record or its payload alone: both are BYTES of the sample. */
static bool decode_sample(const struct bh_job *job, const struct bh_tlv_item *item,
                          struct bh_record *ret_record)
{
    const struct bh_record_layout *layout = bh_record_layout(BH_RECORD_SAMPLE);
    if (bh_record_decode(item->value, item->length, job->id, ret_record) > 0)
        return ret_record->kind == BH_RECORD_SAMPLE;
    memset(ret_record, 0, sizeof *ret_record);
    return layout && bh_fields_decode(layout->fields, layout->count, item->value, item->length,
                                      ret_record) >= 0;
}

static void publish_sample(struct bh_job *job, const struct bh_frame *frame,
                           const struct bh_sample *sample)
{
    const struct bh_status *status = &job->status;
    struct bh_bytes text = {0};
    struct bh_tlv_item item;
    bool has = sample->bytes.status == BH_VALUE_AVAILABLE;
    struct bh_sample_view view = {
        .job_id = job->id,
        .to_us = bh_clock_epoch_us(job->anchor, sample->captured_at),
        .policy_state = status->policy_state,
        .members = sample->members,
        .has_charge = has,
        .charge_min = sample->bytes.value,
        .charge_max = sample->bytes.value,
        .charge_last = sample->bytes.value,
        .active = status->active,
        .reserved = status->reserved,
        .active_min = status->active.value,
        .active_max = status->active.value,
        .reserved_min = status->reserved.value,
        .reserved_max = status->reserved.value,
    };
    uint64_t now = uv_now(&job->app->loop);
    uint64_t span_ms = job->sampled_ms && now - job->sampled_ms < 2000 ? now - job->sampled_ms : 0;
    view.from_us = view.to_us - (int64_t)span_ms * 1000;
    job->sampled_ms = now;
    if (find(frame, BH_TAG_BYTES_MIN, &item))
        view.charge_min = item.number;
    if (find(frame, BH_TAG_BYTES_MAX, &item))
        view.charge_max = item.number;
    if (job->status.charge.value < view.charge_max || !job->has_status)
        job->status.charge = sample->bytes;
    bh_view_sample_document(&view, &text);
    if (!text.failed)
        bh_hub_publish(job->app->hub, BH_EVENT_SAMPLE, job->id, 0, text.data, text.length);
    bh_bytes_done(&text);
}

static void add_waiting(void *user, const struct bh_member_view *member)
{
    struct bh_job *job = user;
    if (job->waiting_count == BH_JOB_MAX_WAITING)
        return;
    struct bh_view_process *process = &job->waiting[job->waiting_count++];
    process->pid = member->pid;
    (void)snprintf(process->basename, sizeof process->basename, "%s", member->basename);
}

static void on_waiting(void *user, int result, const struct bh_frame *frame,
                       const struct bh_diag *diag)
{
    struct bh_job *job = user;
    size_t before = job->waiting_count;
    (void)diag;
    if (result < 0)
        return; /* the connection ended: the job is looked at anyway */
    job->waiting_count = 0;
    (void)bh_link_read_members(frame, add_waiting, job);
    if (job->waiting_count != before)
        bh_jobs_changed(job);
}

void bh_link_ask_waiting(struct bh_job *job)
{
    if (job->link && job->state == BH_JOB_STOPPING)
        bh_link_request(job->link, BH_MSG_MEMBERS, NULL, 0, on_waiting, job);
}

static int take_sample(struct bh_job *job, const struct bh_frame *frame)
{
    struct bh_tlv_item item;
    struct bh_record record;
    if (!find(frame, BH_TAG_SAMPLE, &item))
        return BH_E_MALFORMED;
    if (!decode_sample(job, &item, &record))
        return BH_OK; /* the next one comes in 250 ms */
    job->status.charge = record.sample.bytes;
    job->status.members = record.sample.members;
    publish_sample(job, frame, &record.sample);
    /* peak, active and reserved come with the status */
    if (job->link)
        bh_link_request(job->link, BH_MSG_STATUS, NULL, 0, NULL, NULL);
    bh_link_ask_waiting(job);
    return BH_OK;
}

static void take_drain(struct bh_job *job, const struct bh_frame *frame)
{
    struct bh_tlv_item item;
    uint64_t events = find(frame, BH_TAG_EVENTS, &item) ? item.number : job->status.events;
    uint64_t lost = find(frame, BH_TAG_LOST, &item) ? item.number : job->status.lost;
    bh_jobs_take_drain(job, events, lost);
}

int bh_link_take_event(struct bh_job *job, const struct bh_frame *frame)
{
    switch (frame->type) {
    case BH_MSG_EV_RECORD:
        return take_record(job, frame);
    case BH_MSG_EV_SAMPLE:
        return take_sample(job, frame);
    case BH_MSG_EV_DRAIN:
        take_drain(job, frame);
        return BH_OK;
    case BH_MSG_STATUS:
        bh_link_take_status(job, frame);
        return BH_OK;
    case BH_MSG_EV_FINAL:
        bh_link_take_status(job, frame);
        bh_supervise_ended(job);
        return BH_OK;
    case BH_MSG_HELLO:
    case BH_MSG_WELCOME:
    case BH_MSG_ERROR:
    case BH_MSG_BYE:
    case BH_MSG_WATCH:
    case BH_MSG_MEMBERS:
    case BH_MSG_STOP:
    case BH_MSG_KILL:
    case BH_MSG_SIGNAL:
    case BH_MSG_CHECKPOINT:
    case BH_MSG_LIMITS:
    case BH_MSG_RECORDING:
        break;
    }
    /* an unknown event is skipped unless its sender says that it must be known */
    return frame->flags & BH_FRAME_REQUIRED ? BH_E_MALFORMED : BH_OK;
}

static void read_member(const struct bh_tlv_item *group, struct bh_member_view *member,
                        char *basename, size_t size)
{
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    bh_tlv_open(&reader, group->value, group->length);
    while (bh_tlv_next(&reader, &item) > 0) {
        if (item.tag == BH_TAG_PID)
            member->pid = (int)item.number;
        else if (item.tag == BH_TAG_START_TOKEN)
            member->start_token = item.number;
        else if (item.tag == BH_TAG_BASENAME)
            (void)bh_tlv_copy_text(&item, basename, size);
        else if (item.tag == BH_TAG_ESCAPED)
            member->left_group = item.number != 0;
        else if (item.tag == BH_TAG_BYTES)
            member->charge = (struct bh_observed){BH_VALUE_AVAILABLE, item.number};
    }
}

int bh_link_read_members(const struct bh_frame *frame,
                         void (*visit)(void *user, const struct bh_member_view *member), void *user)
{
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    int result;
    bh_tlv_open(&reader, frame->body, frame->body_length);
    while ((result = bh_tlv_next(&reader, &item)) > 0) {
        char basename[BH_BASENAME_SIZE] = "";
        struct bh_member_view member = {.basename = basename};
        if (item.tag != BH_TAG_MEMBER)
            continue;
        read_member(&item, &member, basename, sizeof basename);
        visit(user, &member);
    }
    return result;
}
