#include "core/tool/series.h"

static int drop_keyframe(void *context, const struct bh_keyframe_info *info, const void *data,
                         size_t length)
{
    (void)context;
    (void)info;
    (void)data;
    (void)length;
    return BH_OK;
}

static int keep_loss(void *context, const struct bh_loss *loss)
{
    struct bh_tool_series *series = context;
    bh_bytes_append(&series->loss_bytes, loss, sizeof *loss);
    return series->loss_bytes.failed ? BH_E_NOMEM : BH_OK;
}

static int drop_mark(void *context, const struct bh_mark *mark)
{
    (void)context;
    (void)mark;
    return BH_OK;
}

static int build_events(struct bh_tool_series *series, const struct bh_trace_source *source)
{
    struct bh_ingest *ingest;
    const struct bh_ingest_store store = {series->store, series, drop_keyframe, keep_loss,
                                          drop_mark};
    int error = bh_ingest_new(source->header.anchor, &ingest);
    if (error < 0)
        return error;
    error = source->seek(source->context, 0, false);
    while (error >= 0) {
        const unsigned char *data;
        size_t length;
        int more = source->next(source->context, &data, &length);
        if (more <= 0) {
            error = more;
            break;
        }
        error = bh_ingest_segment(ingest, data, length, NULL);
        if (error >= 0)
            error = bh_ingest_flush(ingest, &store); /* keeps no full chunks in memory twice */
    }
    bh_ingest_free(ingest);
    return error;
}

static int build_charge(struct bh_tool_series *series, const struct bh_tool_facts *facts)
{
    struct bh_series_builder *builder;
    int error = bh_series_new(BH_SERIES_CHARGE, &builder);
    for (size_t i = 0; i < facts->charge_count && error >= 0; i++)
        error = bh_series_add(builder, facts->charge[i].at_us, facts->charge[i].value);
    if (error >= 0)
        error = bh_series_flush(builder, &series->store);
    bh_series_free(builder);
    return error;
}

static int summarize(struct bh_tool_series *series, const struct bh_tool_facts *facts)
{
    series->from_us = facts->began_us;
    series->to_us = facts->ended_us;
    for (int i = 0; i < BH_SERIES_COUNT; i++) {
        struct bh_series_summary *summary = &series->summary[i];
        int error = bh_series_summary(&series->store, (enum bh_series)i, summary);
        if (error < 0)
            return error;
        if (!summary->points)
            continue;
        if (series->from_us == 0 || summary->first_us < series->from_us)
            series->from_us = summary->first_us;
        if (summary->last_us > series->to_us)
            series->to_us = summary->last_us;
    }
    series->losses = (void *)series->loss_bytes.data;
    series->loss_count = series->loss_bytes.length / sizeof *series->losses;
    return BH_OK;
}

int bh_tool_series_build(const struct bh_tool_trace *trace, const struct bh_tool_facts *facts,
                         struct bh_tool_series *ret_series, struct bh_diag *diag)
{
    struct bh_tool_series series = {0};
    int error = bh_level_memory_new(&series.memory);
    if (error >= 0) {
        series.store = bh_level_memory_store(series.memory);
        error = trace->source ? build_events(&series, trace->source) : BH_OK;
    }
    if (error >= 0)
        error = build_charge(&series, facts);
    if (error >= 0)
        error = summarize(&series, facts);
    if (error < 0) {
        bh_tool_series_done(&series);
        return bh_err_set(diag, error, NULL, "The timeline cannot be made: %s",
                          bh_err_title(error));
    }
    *ret_series = series;
    return BH_OK;
}

void bh_tool_series_done(struct bh_tool_series *series)
{
    bh_level_memory_free(series->memory);
    bh_bytes_done(&series->loss_bytes);
}
