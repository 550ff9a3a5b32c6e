/* One journal record as a line of JSON, member for member as in core/model/record.h. */
#ifndef BH_TOOL_RECORD_JSON_H
#define BH_TOOL_RECORD_JSON_H

#include "core/base/bytes.h"
#include "core/model/record.h"

/* Appends {"seq","by","record","at_us","data":{members}} and a newline. Times are epoch
 * microseconds. */
void bh_tool_record_json(struct bh_bytes *out, const struct bh_record *record,
                         struct bh_anchor anchor);

#endif
