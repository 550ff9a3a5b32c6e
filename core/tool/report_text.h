/* A report for people: some lines of plain text on standard output. */
#ifndef BH_TOOL_REPORT_TEXT_H
#define BH_TOOL_REPORT_TEXT_H

#include "core/model/report.h"

/* utc_offset_s: of local time, for the moments that are named. What is unknown is left out or said
 * to be unknown, never 0. */
void bh_tool_report_print(const struct bh_report *report, int utc_offset_s);

#endif
