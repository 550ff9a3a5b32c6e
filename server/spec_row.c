#include "server/spec_row.h"

#include <stdlib.h>

#include "core/wire/spec_file.h"

int bh_spec_row_encode(const struct bh_job_spec *spec, struct bh_bytes *ret_bytes,
                       struct bh_diag *diag)
{
    struct bh_job_spec copy = *spec;
    struct bh_text_pair *env = NULL;
    int result;

    if (spec->env_count) {
        env = calloc(spec->env_count, sizeof *env);
        if (!env)
            return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
        for (size_t i = 0; i < spec->env_count; i++)
            env[i] = (struct bh_text_pair){spec->env[i].key, ""};
    }
    copy.env = env;
    copy.recorder_path = NULL;
    result = bh_spec_file_encode(&copy, ret_bytes, diag);
    free(env);
    return result;
}
