#include "core/tool/report_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/text.h"
#include "core/model/job.h"

#define SIZE_TEXT 32

static void line(const char *label)
{
    printf("  %-12s", label);
}

static const char *size(uint64_t bytes, char *buffer)
{
    return bh_text_format_bytes(bytes, buffer, SIZE_TEXT);
}

/* "14:03:11" in local time. */
static void print_time(const struct bh_report *report, struct bh_mono at, int utc_offset_s)
{
    int64_t second = bh_clock_epoch_us(report->anchor, at) / 1000000 + utc_offset_s;
    int64_t of_day = (second % 86400 + 86400) % 86400;
    printf("%02d:%02d:%02d", (int)(of_day / 3600), (int)(of_day / 60 % 60), (int)(of_day % 60));
}

static void print_command(const struct bh_report *report)
{
    line("command");
    printf("%s with %" PRIu32 " argument%s", report->config.executable,
           report->config.argument_count, report->config.argument_count == 1 ? "" : "s");
    if (report->has_launched) {
        uint64_t ran_ns = report->last_at.ns - report->launched_at.ns;
        printf(", ran %.1f s", (double)ran_ns / 1e9);
    }
    printf("; run %s\n", report->run_id);
}

static void print_memory(const struct bh_report *report, int utc_offset_s)
{
    const struct bh_record_outcome *outcome = &report->outcome;
    char text[SIZE_TEXT];
    line("memory");
    if (outcome->peak_bytes.status == BH_VALUE_AVAILABLE) {
        printf("peak %s at ", size(outcome->peak_bytes.value, text));
        print_time(report, outcome->peak_at, utc_offset_s);
    } else {
        printf("peak unknown");
    }
    if (report->config.mode == BH_MODE_ENFORCE)
        printf(", limit %s, ", size(report->config.limit_bytes, text));
    else
        printf(", no limit, ");
    printf("%s\n", bh_boundary_text((int)report->host.boundary));
    if (report->config.mode == BH_MODE_ENFORCE && report->has_stop) {
        line("");
        printf("%s above the limit when it was decided,",
               size(outcome->decision_overshoot_bytes, text));
        printf(" %s at most\n", size(outcome->peak_overshoot_bytes, text));
    }
    for (size_t i = 0; i < report->peak_count && i < 3; i++) {
        const struct bh_record_peak_member *member = &report->peak_members[i];
        line(i == 0 ? "of it" : "");
        printf("%-10s %s (%d)\n", size(member->bytes, text), member->basename, member->pid);
    }
    if (report->peak_count > 3) {
        line("");
        printf("and %zu more processes\n", report->peak_count - 3);
    }
}

static void print_signals(const struct bh_report *report, int utc_offset_s)
{
    char name[16];
    for (size_t i = 0; i < report->signal_list.count; i++) {
        const struct bh_report_signal *signal = &report->signals[i];
        line(i == 0 ? "signals" : "");
        printf("%s at ", bh_text_signal_name(signal->record.signal, name, sizeof name));
        print_time(report, signal->at, utc_offset_s);
        printf(", %s, reached %" PRIu32 ", %" PRIu64 " us after the decision\n",
               signal->record.reason, signal->record.reached,
               signal->record.decision_to_signal_ns / 1000);
    }
    if (report->signal_list.omitted) {
        line("");
        printf("and %" PRIu64 " more\n", report->signal_list.omitted);
    }
}

static void print_tree(const struct bh_report *report)
{
    const struct bh_record_outcome *outcome = &report->outcome;
    line("processes");
    printf("%" PRIu64 " seen, %" PRIu64 " left their group or session, %s\n", outcome->members_seen,
           outcome->members_escaped,
           report->has_empty && report->empty.proven ? "proven that none is left"
                                                     : "not proven that none is left");
}

static void print_checkpoint(const struct bh_report *report)
{
    if (report->checkpoint_list.count == 0)
        return;
    line("checkpoint");
    printf("%s\n", bh_checkpoint_word_text((int)report->stop_checkpoint));
}

static void print_recorder(const struct bh_report *report)
{
    const struct bh_record_recorder *recorder = &report->recorder;
    if (!report->has_recorder)
        return;
    line("recorder");
    printf("%s", bh_recorder_state_text((int)recorder->state));
    if (recorder->reason[0])
        printf(": %s\n", recorder->reason);
    else
        printf(", MLX %s, %" PRIu64 " events, %" PRIu64 " lost\n", recorder->mlx_version,
               recorder->events, recorder->lost);
}

static void print_supervisor(const struct bh_report *report)
{
    const struct bh_record_outcome *outcome = &report->outcome;
    line("supervisor");
    printf("%" PRIu64 " readings, %" PRIu64 " of them unusable, %.1f ms of CPU time\n",
           outcome->complete_samples + outcome->incomplete_samples, outcome->incomplete_samples,
           (double)outcome->cpu_ns / 1e6);
}

void bh_tool_report_print(const struct bh_report *report, int utc_offset_s)
{
    if (!report->has_config)
        return;
    print_command(report);
    if (!report->has_outcome)
        return;
    print_memory(report, utc_offset_s);
    print_signals(report, utc_offset_s);
    print_checkpoint(report);
    print_tree(report);
    print_recorder(report);
    print_supervisor(report);
}
