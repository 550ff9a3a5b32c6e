#include "core/tool/facts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/base/text.h"
#include "core/model/policy.h"
#include "core/wire/journal.h"

/* The text goes to texts; its offset stands in for the pointer until texts stops moving. */
static void annotate(struct bh_tool_facts *facts, int64_t at_us, const char *text)
{
    union {
        size_t offset;
        const char *pointer;
    } name = {.offset = facts->texts.length};
    struct bh_annotation annotation = {.at_us = at_us, .name = name.pointer};
    bh_bytes_append(&facts->texts, text, strlen(text) + 1);
    bh_bytes_append(&facts->annotation_bytes, &annotation, sizeof annotation);
}

static void add_point(struct bh_tool_facts *facts, struct bh_mono at, uint64_t value)
{
    struct bh_tool_point point = {bh_clock_epoch_us(facts->anchor, at), value};
    bh_bytes_append(&facts->charge_bytes, &point, sizeof point);
}

/* Both extremes of the span get a place inside of it; only the greatest one's time is known. */
static void take_samples(struct bh_tool_facts *facts, const struct bh_record_samples *samples)
{
    struct bh_mono middle = {samples->from.ns + (samples->to.ns - samples->from.ns) / 2};
    if (samples->max.status != BH_VALUE_AVAILABLE || samples->min.status != BH_VALUE_AVAILABLE) {
        add_point(facts, samples->from, BH_SERIES_UNKNOWN);
        return;
    }
    if (samples->max_at.ns > middle.ns) {
        add_point(facts, samples->from, samples->min.value);
        add_point(facts, samples->max_at, samples->max.value);
    } else {
        add_point(facts, samples->max_at, samples->max.value);
        add_point(facts, middle, samples->min.value);
    }
    if (samples->last.status == BH_VALUE_AVAILABLE)
        add_point(facts, samples->to, samples->last.value);
}

static void take_limits(struct bh_tool_facts *facts, const struct bh_tool_limits *limits)
{
    facts->limits = *limits;
    if (limits->limit_bytes)
        bh_bytes_append(&facts->change_bytes, limits, sizeof *limits);
}

static void take_marker(struct bh_tool_facts *facts, const struct bh_record *record, int64_t at_us)
{
    char text[192], name[16];
    switch (record->kind) {
    case BH_RECORD_LIMIT_CROSSED:
        (void)snprintf(text, sizeof text, "the charge reached the limit");
        break;
    case BH_RECORD_TRANSITION:
        (void)snprintf(text, sizeof text, "state %s",
                       bh_policy_state_name((enum bh_policy_state_id)record->transition.to));
        break;
    case BH_RECORD_SIGNAL:
        (void)snprintf(text, sizeof text, "%s",
                       bh_text_signal_name(record->signal.signal, name, sizeof name));
        break;
    case BH_RECORD_CHECKPOINT:
        (void)snprintf(text, sizeof text, "checkpoint %s",
                       bh_checkpoint_word_text((int)record->checkpoint.word));
        break;
    case BH_RECORD_MARK:
        (void)snprintf(text, sizeof text, "%s", record->mark.label);
        break;
    case BH_RECORD_OUTCOME:
        (void)snprintf(text, sizeof text, "%s", bh_outcome_text((int)record->outcome.kind));
        break;
    case BH_RECORD_CONFIG:
    case BH_RECORD_HOST:
    case BH_RECORD_LAUNCHED:
    case BH_RECORD_SAMPLES:
    case BH_RECORD_CONFIG_CHANGE:
    case BH_RECORD_CLOCK_GAP:
    case BH_RECORD_ESCAPE:
    case BH_RECORD_MEMBER:
    case BH_RECORD_ADVISORY:
    case BH_RECORD_LOSSES:
    case BH_RECORD_ARTIFACT_ERROR:
    case BH_RECORD_PEAK_MEMBER:
    case BH_RECORD_RECORDER:
    case BH_RECORD_EMPTY:
    case BH_RECORD_SAMPLE:
        return;
    }
    annotate(facts, at_us, text);
}

static void take_record(struct bh_tool_facts *facts, const struct bh_record *record)
{
    int64_t at_us = bh_clock_epoch_us(facts->anchor, record->at);
    if (facts->began_us == 0)
        facts->began_us = at_us;
    if (at_us > facts->ended_us)
        facts->ended_us = at_us;
    if (record->kind == BH_RECORD_CONFIG)
        take_limits(facts, &(struct bh_tool_limits){
                               at_us, record->config.limit_bytes, record->config.warning_bytes,
                               record->config.recovery_bytes, record->config.emergency_bytes});
    if (record->kind == BH_RECORD_CONFIG_CHANGE)
        take_limits(facts, &(struct bh_tool_limits){at_us, record->config_change.limit_bytes,
                                                    record->config_change.warning_bytes,
                                                    record->config_change.recovery_bytes,
                                                    record->config_change.emergency_bytes});
    if (record->kind == BH_RECORD_LIMIT_CROSSED && !facts->limit_crossed) {
        facts->limit_crossed = true;
        facts->crossed_us = at_us;
        facts->crossed_bytes = record->limit_crossed.bytes;
    }
    if (record->kind == BH_RECORD_SAMPLES)
        take_samples(facts, &record->samples);
    take_marker(facts, record, at_us);
}

/* Buffers are complete: set the pointers into them. */
static int settle(struct bh_tool_facts *facts)
{
    if (facts->texts.failed || facts->annotation_bytes.failed || facts->charge_bytes.failed ||
        facts->change_bytes.failed)
        return BH_E_NOMEM;
    facts->annotations = (void *)facts->annotation_bytes.data;
    facts->annotation_count = facts->annotation_bytes.length / sizeof *facts->annotations;
    facts->charge = (void *)facts->charge_bytes.data;
    facts->charge_count = facts->charge_bytes.length / sizeof *facts->charge;
    facts->changes = (void *)facts->change_bytes.data;
    facts->change_count = facts->change_bytes.length / sizeof *facts->changes;
    for (size_t i = 0; i < facts->annotation_count; i++) {
        union {
            const char *pointer;
            size_t offset;
        } name = {.pointer = facts->annotations[i].name};
        facts->annotations[i].name = (const char *)facts->texts.data + name.offset;
    }
    return BH_OK;
}

int bh_tool_facts_read(int dirfd, struct bh_tool_facts *ret_facts, struct bh_diag *diag)
{
    struct bh_tool_facts facts = {0};
    struct bh_journal_reader *reader;
    struct bh_record record;
    BH_SCOPED_FD int fd = -1;
    int error = bh_io_open(dirfd, BH_JOURNAL_FILE_NAME, O_RDONLY, &fd, diag);
    if (error == BH_E_NOT_FOUND) {
        *ret_facts = facts;
        return BH_OK;
    }
    if (error >= 0)
        error = bh_journal_reader_new(fd, &reader, diag);
    if (error < 0)
        return error;
    facts.found = true;
    facts.anchor = bh_journal_reader_header(reader)->anchor;
    while (bh_journal_reader_next(reader, &record) > 0)
        take_record(&facts, &record); /* the valid prefix is what counts, however it ends */
    bh_journal_reader_free(reader);
    error = settle(&facts);
    if (error < 0) {
        bh_tool_facts_done(&facts);
        return bh_err_set(diag, error, NULL, "No memory for the journal's facts");
    }
    *ret_facts = facts;
    return BH_OK;
}

void bh_tool_facts_done(struct bh_tool_facts *facts)
{
    bh_bytes_done(&facts->texts);
    bh_bytes_done(&facts->annotation_bytes);
    bh_bytes_done(&facts->charge_bytes);
    bh_bytes_done(&facts->change_bytes);
}
