#include "core/base/scoped.h"
#include "core/super/super.h"

#include <unistd.h>

void bh_run_init(struct bh_run *run)
{
    *run = (struct bh_run){
        .run_fd = -1,
        .runtime_fd = -1,
        .rings_fd = -1,
        .lock_fd = -1,
        .decider_alive_fd = -1,
        .decider_token_fd = -1,
        .scribe_alive_fd = -1,
        .scribe_token_fd = -1,
        .ready_fd = -1,
    };
}

void bh_run_done(struct bh_run *run)
{
    bh_close_fd(&run->run_fd);
    bh_close_fd(&run->runtime_fd);
    bh_close_fd(&run->rings_fd);
    bh_close_fd(&run->lock_fd);
    bh_close_fd(&run->decider_alive_fd);
    bh_close_fd(&run->decider_token_fd);
    bh_close_fd(&run->scribe_alive_fd);
    bh_close_fd(&run->scribe_token_fd);
    bh_close_fd(&run->ready_fd);
    bh_queue_free(run->queue);
    run->queue = NULL;
}

void bh_run_policy_config(const struct bh_job_spec *spec, struct bh_policy_config *ret_config)
{
    enum bh_policy_mode mode =
        spec->mode == BH_MODE_OBSERVE ? BH_POLICY_MODE_OBSERVE : BH_POLICY_MODE_ENFORCE;
    enum bh_policy_emergency action = spec->emergency_action == BH_EMERGENCY_TERM
                                          ? BH_POLICY_EMERGENCY_TERM
                                          : BH_POLICY_EMERGENCY_KILL;
    bh_policy_config_job(mode, action, spec->interval_ns, ret_config);
    ret_config->bands = (struct bh_policy_bands){
        .recovery_bytes = spec->recovery_bytes,
        .warning_bytes = spec->warning_bytes,
        .limit_bytes = spec->limit_bytes,
        .emergency_bytes = spec->emergency_bytes,
    };
    ret_config->required_breaches = spec->breach_count;
    ret_config->max_unusable = spec->max_unusable;
    ret_config->breach_hold_ns = spec->breach_hold_ns;
    ret_config->wall_time_ns = spec->wall_time_ns;
    if (spec->checkpoint_kind != BH_CHECKPOINT_NONE)
        ret_config->checkpoint_timeout_ns = spec->checkpoint_timeout_ns;
    ret_config->grace_base_ns = spec->grace_base_ns;
    ret_config->grace_per_gib_ns = spec->grace_per_gib_ns;
    ret_config->grace_max_ns = spec->grace_max_ns;
    ret_config->kill_retry_ns = spec->kill_retry_ns;
    ret_config->kill_wait_ns = spec->kill_wait_ns;
}
