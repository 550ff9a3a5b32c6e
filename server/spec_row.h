/* The spec as a row keeps it: spec.bin's format with every environment value blanked and without
 * the recorder's path. Used by the store for new jobs and by the rebuild. */
#ifndef BH_SERVER_SPEC_ROW_H
#define BH_SERVER_SPEC_ROW_H

#include "core/base/bytes.h"
#include "core/model/job.h"

int bh_spec_row_encode(const struct bh_job_spec *spec, struct bh_bytes *ret_bytes,
                       struct bh_diag *diag);

#endif
