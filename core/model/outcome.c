#include "core/model/outcome.h"

#include <signal.h>

#include "core/base/err.h"

#define EXIT_POLICY 75

/* Signals that a process raises by its own fault. */
static bool is_crash(int signal)
{
    switch (signal) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGTRAP:
    case SIGSYS:
        return true;
    default:
        return false;
    }
}

static int child_exit_code(const struct bh_outcome_facts *facts)
{
    if (facts->signal > 0)
        return 128 + facts->signal;
    return facts->exit_code >= 0 ? facts->exit_code : 70;
}

/* The root ended by itself, or by somebody else's signal. */
static void decide_child(const struct bh_outcome_facts *facts, struct bh_record_outcome *outcome)
{
    outcome->kind = facts->signal > 0 ? BH_OUTCOME_CHILD_SIGNALED : BH_OUTCOME_CHILD_EXITED;
    outcome->reported_exit_code = child_exit_code(facts);
    if (facts->kernel_oom && (facts->signal == SIGKILL || facts->exit_code != 0))
        outcome->cause = BH_CAUSE_KERNEL_OOM;
    else if (facts->signal == 0 && facts->exit_code == 0)
        outcome->cause = BH_CAUSE_COMPLETED;
    else if (facts->signal == 0 && facts->exit_code > 0)
        outcome->cause = BH_CAUSE_CHILD_ERROR;
    else if (facts->signal == 0)
        outcome->cause = BH_CAUSE_UNKNOWN;
    else if (facts->signal_was_requested)
        outcome->cause = BH_CAUSE_USER_STOP;
    else if (is_crash(facts->signal))
        outcome->cause = BH_CAUSE_CRASH_SIGNAL;
    else if (facts->signal_was_ours)
        outcome->cause = BH_CAUSE_UNKNOWN; /* ours, yet no stop is known: never guessed */
    else
        outcome->cause = BH_CAUSE_KILLED_BY_OTHER;
}

static void decide_policy(const struct bh_outcome_facts *facts, enum bh_cause cause,
                          struct bh_record_outcome *outcome)
{
    outcome->kind = BH_OUTCOME_POLICY_INTERVENTION;
    outcome->cause = cause;
    outcome->reported_exit_code = EXIT_POLICY;
    if (facts->mode == BH_MODE_OBSERVE)
        outcome->reported_exit_code = child_exit_code(facts);
}

static void decide_failure(enum bh_outcome_kind kind, enum bh_cause cause, int exit_code,
                           struct bh_record_outcome *outcome)
{
    outcome->kind = kind;
    outcome->cause = cause;
    outcome->reported_exit_code = exit_code;
}

static void decide_stop(const struct bh_outcome_facts *facts, struct bh_record_outcome *outcome)
{
    switch (facts->stop) {
    case BH_STOP_NONE:
    case BH_STOP_ROOT_EXITED: /* kind, cause and exit are the root's own */
        decide_child(facts, outcome);
        break;
    case BH_STOP_LIMIT:
        decide_policy(facts, BH_CAUSE_LIMIT_EXCEEDED, outcome);
        break;
    case BH_STOP_EMERGENCY:
        decide_policy(facts, BH_CAUSE_EMERGENCY, outcome);
        break;
    case BH_STOP_WALL_TIME:
        decide_policy(facts, BH_CAUSE_WALL_TIME, outcome);
        break;
    case BH_STOP_REQUEST:
        decide_policy(facts, BH_CAUSE_USER_STOP, outcome);
        break;
    case BH_STOP_SIGNAL:
        decide_policy(facts, BH_CAUSE_USER_STOP, outcome);
        if (facts->mode != BH_MODE_OBSERVE)
            outcome->reported_exit_code = 128 + facts->stop_signal_number;
        break;
    case BH_STOP_OWNER_EXIT:
        decide_policy(facts, BH_CAUSE_OWNER_EXIT, outcome);
        break;
    case BH_STOP_OBSERVATION_FAILED:
        decide_failure(BH_OUTCOME_SUPERVISOR_FAILURE, BH_CAUSE_OBSERVATION_FAILED, 70, outcome);
        break;
    case BH_STOP_SUPERVISOR_FAULT:
        decide_failure(BH_OUTCOME_SUPERVISOR_FAILURE, BH_CAUSE_UNKNOWN, 70, outcome);
        break;
    }
}

/* Never ran: the error says which kind. */
static void decide_launch(const struct bh_outcome_facts *facts, struct bh_record_outcome *outcome)
{
    int exit_code = bh_err_exit(facts->error);
    switch (facts->error) {
    case BH_E_LAUNCH_NOT_FOUND:
        decide_failure(BH_OUTCOME_LAUNCH_NOT_FOUND, BH_CAUSE_UNKNOWN, exit_code, outcome);
        break;
    case BH_E_LAUNCH_NOT_EXECUTABLE:
    case BH_E_LAUNCH_CWD:
    case BH_E_LAUNCH_TOO_LONG:
        decide_failure(BH_OUTCOME_LAUNCH_NOT_EXECUTABLE, BH_CAUSE_UNKNOWN, exit_code, outcome);
        break;
    case BH_E_INVALID_CONFIG:
    case BH_E_INVALID_VALUE:
        decide_failure(BH_OUTCOME_INVALID_CONFIGURATION, BH_CAUSE_UNKNOWN, exit_code, outcome);
        break;
    default:
        decide_failure(BH_OUTCOME_SUPERVISOR_FAILURE, BH_CAUSE_UNKNOWN, 70, outcome);
        break;
    }
}

void bh_outcome_decide(const struct bh_outcome_facts *facts, struct bh_record_outcome *ret_outcome)
{
    struct bh_record_outcome *outcome = ret_outcome;
    outcome->exit_code = facts->signal > 0 ? -1 : facts->exit_code;
    outcome->signal = facts->signal;
    outcome->error = facts->error;
    if (facts->reboot)
        decide_failure(BH_OUTCOME_SUPERVISOR_LOST, BH_CAUSE_HOST_REBOOT, 70, outcome);
    else if (facts->supervisor_lost)
        decide_failure(BH_OUTCOME_SUPERVISOR_LOST, BH_CAUSE_SUPERVISOR_LOST, 70, outcome);
    else if (!facts->launched)
        decide_launch(facts, outcome);
    else
        decide_stop(facts, outcome);
    if (facts->unkillable) { /* the cause stays: why it was to be stopped */
        outcome->kind = BH_OUTCOME_UNKILLABLE;
        outcome->reported_exit_code = 70;
    }
    if (facts->artifact_error && facts->launched) {
        outcome->kind = BH_OUTCOME_PARTIAL_ARTIFACT_FAILURE;
        outcome->reported_exit_code = 74;
    }
}
