#include "api/job_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/jget.h"
#include "core/base/text.h"

#define U32_MAX 0xffffffffull

static const char *const top_members[] = {
    "command", "name",          "if_exists",      "cwd",
    "env",     "clear_env",     "mode",           "limit",
    "bands",   "force",         "wall_time",      "sample_interval",
    "breach",  "checkpoint",    "stop",           "min_sample_interval",
    "record",  "labels",        "on_server_exit", "max_unusable",
    "owner",   "on_owner_exit", "external",       "brake",
    NULL,
};
static const char *const band_members[] = {"warning", "recovery", "emergency", NULL};
static const char *const breach_members[] = {"count", "hold", NULL};
static const char *const stop_members[] = {"signal",     "grace",     "emergency_action",
                                           "kill_retry", "kill_wait", NULL};
static const char *const grace_members[] = {"base", "per_gib", "max", NULL};
static const char *const record_members[] = {"enabled", "max_entries",     "min_size", "stacks",
                                             "depth",   "trace_max_bytes", NULL};
static const char *const checkpoint_members[] = {"protocol", "signal",  "path", "timeout",
                                                 "repeat",   "process", NULL};
static const char *const owner_members[] = {"pid", NULL};
static const char *const mode_choices[] = {"enforce", "observe", NULL};
static const char *const keep_choices[] = {"keep", "terminate", NULL};
static const char *const owner_choices[] = {"keep", "stop", NULL};
static const char *const exists_choices[] = {"fail", "return", NULL};
static const char *const emergency_choices[] = {"kill", "term", NULL};
static const char *const stacks_choices[] = {"none", "python", "all", NULL};
static const char *const protocol_choices[] = {"mgcp", NULL};
static const char *const process_choices[] = {"root", "python", NULL};

/* Room for the arrays a spec points to; freed as one. */
struct arrays {
    const char *argv[BH_SPEC_MAX_ARGUMENTS + 1];
    struct bh_text_pair env[BH_SPEC_MAX_ENVIRONMENT];
    struct bh_text_pair labels[BH_SPEC_MAX_LABELS];
};

static void read_command(const struct bh_jget *top, struct bh_job_spec *spec, struct arrays *arrays)
{
    json_t *value = bh_jget_value(top, "command");
    if (!value)
        return;
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count == 0 || count > BH_SPEC_MAX_ARGUMENTS) {
        bh_jget_refuse(top, BH_E_INVALID_VALUE, "command",
                       "Give an array of 1 to %d strings: the program and its arguments.",
                       BH_SPEC_MAX_ARGUMENTS);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        json_t *item = json_array_get(value, i);
        if (!json_is_string(item) || (i == 0 && json_string_length(item) == 0)) {
            char pointer[32];
            (void)snprintf(pointer, sizeof pointer, "/command/%zu", i);
            bh_problem_add(top->problem, BH_E_INVALID_VALUE, pointer, "Give a %sstring here.",
                           i ? "" : "non-empty ");
            return;
        }
        arrays->argv[i] = json_string_value(item);
    }
    spec->argv = arrays->argv;
    spec->argc = count;
}

/* An object of strings into pairs; what names the members in messages. */
static size_t read_pairs(const struct bh_jget *top, const char *key, struct bh_text_pair *pairs,
                         size_t maximum)
{
    json_t *object = bh_jget_value(top, key);
    if (!object)
        return 0;
    if (!json_is_object(object) || json_object_size(object) > maximum) {
        bh_jget_refuse(top, BH_E_INVALID_VALUE, key, "Give an object of at most %zu strings.",
                       maximum);
        return 0;
    }
    size_t count = 0;
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        if (!json_is_string(value) || !*name) {
            bh_jget_refuse(top, BH_E_INVALID_VALUE, key,
                           "Every member must have a name and a string as value.");
            return 0;
        }
        pairs[count++] = (struct bh_text_pair){name, json_string_value(value)};
    }
    return count;
}

static void read_env(const struct bh_jget *top, struct bh_job_spec *spec, struct arrays *arrays)
{
    spec->env = arrays->env;
    spec->env_count = read_pairs(top, "env", arrays->env, BH_SPEC_MAX_ENVIRONMENT);
    for (size_t i = 0; i < spec->env_count; i++) {
        const char *key = arrays->env[i].key;
        if (strchr(key, '='))
            bh_jget_refuse(top, BH_E_INVALID_VALUE, "env", "A name must not hold an equals sign.");
        else if (strncmp(key, "BULKHEAD_", 9) == 0 || strcmp(key, "MLX_GUARD_CHECKPOINT_FD") == 0)
            bh_jget_refuse(top, BH_E_INVALID_VALUE, "env",
                           "%.60s is set by Bulkhead only. Leave it out.", key);
    }
    (void)bh_jget_bool(top, "clear_env", &spec->clear_env);
}

static void read_labels(const struct bh_jget *top, struct bh_job_spec *spec, struct arrays *arrays)
{
    spec->labels = arrays->labels;
    spec->label_count = read_pairs(top, "labels", arrays->labels, BH_SPEC_MAX_LABELS);
    for (size_t i = 0; i < spec->label_count; i++) {
        if (strlen(arrays->labels[i].key) > 64 || strlen(arrays->labels[i].value) > 256)
            bh_jget_refuse(top, BH_E_INVALID_VALUE, "labels",
                           "A label's name has at most 64 bytes, its value 256.");
    }
}

static void read_u32(const struct bh_jget *reader, const char *key, uint64_t minimum,
                     uint32_t *ret_value)
{
    uint64_t value = 0;
    if (bh_jget_u64(reader, key, minimum, U32_MAX, &value))
        *ret_value = (uint32_t)value;
}

static void read_bands(const struct bh_jget *top, struct bh_job_spec *spec)
{
    (void)bh_jget_size(top, "limit", &spec->limit_bytes);
    if (bh_jget_has(top, "limit") && spec->limit_bytes == 0 && top->problem->error == 0)
        bh_jget_refuse(top, BH_E_INVALID_VALUE, "limit", "Give a limit above 0.");
    struct bh_jget bands;
    if (!bh_jget_child(top, "bands", band_members, &bands))
        return;
    if (bh_jget_size(&bands, "warning", &spec->warning_bytes))
        spec->bands_given = true;
    if (bh_jget_size(&bands, "recovery", &spec->recovery_bytes))
        spec->bands_given = true;
    if (bh_jget_size(&bands, "emergency", &spec->emergency_bytes))
        spec->bands_given = true;
    if (!bh_jget_has(top, "limit"))
        bh_jget_refuse(top, BH_E_INVALID_VALUE, "bands", "Bands need a limit. Give it too.");
}

static void read_mode(const struct bh_jget *top, struct bh_job_spec *spec)
{
    bool has_limit = bh_jget_has(top, "limit");
    int mode = -1;
    if (bh_jget_choice(top, "mode", mode_choices, &mode))
        spec->mode = mode == 0 ? BH_MODE_ENFORCE : BH_MODE_OBSERVE;
    else if (spec->external) /* its limit is drawn, nobody here can enforce it */
        spec->mode = BH_MODE_OBSERVE;
    else if (has_limit || bh_jget_has(top, "mode"))
        spec->mode = BH_MODE_ENFORCE;
    else {
        bh_jget_refuse(top, BH_E_MODE_MISSING, "limit", "Missing, and so is mode.");
        bh_jget_refuse(top, BH_E_MODE_MISSING, "mode", "Missing, and so is limit.");
    }
    if (mode == 0 && !has_limit)
        bh_jget_refuse(top, BH_E_MISSING_MEMBER, "limit",
                       "enforce needs a limit. Give it, or \"mode\": \"observe\".");
    if (spec->external && mode == 0)
        bh_jget_refuse(top, BH_E_INVALID_VALUE, "mode", "An external job can only be observed.");
}

static void read_stop(const struct bh_jget *top, struct bh_job_spec *spec)
{
    struct bh_jget stop;
    struct bh_jget grace;
    if (!bh_jget_child(top, "stop", stop_members, &stop))
        return;
    (void)bh_jget_signal(&stop, "signal", &spec->stop_signal);
    if (bh_jget_child(&stop, "grace", grace_members, &grace)) {
        (void)bh_jget_duration(&grace, "base", &spec->grace_base_ns);
        (void)bh_jget_duration(&grace, "per_gib", &spec->grace_per_gib_ns);
        (void)bh_jget_duration(&grace, "max", &spec->grace_max_ns);
    }
    int action = 0;
    if (bh_jget_choice(&stop, "emergency_action", emergency_choices, &action))
        spec->emergency_action = action == 0 ? BH_EMERGENCY_KILL : BH_EMERGENCY_TERM;
    (void)bh_jget_duration(&stop, "kill_retry", &spec->kill_retry_ns);
    (void)bh_jget_duration(&stop, "kill_wait", &spec->kill_wait_ns);
}

static void read_checkpoint(const struct bh_jget *top, struct bh_job_spec *spec)
{
    struct bh_jget checkpoint;
    if (json_is_null(bh_jget_value(top, "checkpoint")) ||
        !bh_jget_child(top, "checkpoint", checkpoint_members, &checkpoint))
        return;
    bool protocol = bh_jget_has(&checkpoint, "protocol");
    int choice = 0;
    if (protocol == bh_jget_has(&checkpoint, "signal")) {
        bh_jget_refuse(&checkpoint, BH_E_INVALID_VALUE, NULL,
                       "Give either protocol, or signal and path.");
        return;
    }
    if (protocol) {
        (void)bh_jget_choice(&checkpoint, "protocol", protocol_choices, &choice);
        spec->checkpoint_kind = BH_CHECKPOINT_PROTOCOL;
    } else {
        spec->checkpoint_kind = BH_CHECKPOINT_SIGNAL;
        (void)bh_jget_signal(&checkpoint, "signal", &spec->checkpoint_signal);
        if (!bh_jget_text(&checkpoint, "path", &spec->checkpoint_path) || !*spec->checkpoint_path)
            bh_jget_refuse(&checkpoint, BH_E_MISSING_MEMBER, "path",
                           "Say where the program writes its checkpoint.");
        if (bh_jget_choice(&checkpoint, "process", process_choices, &choice))
            spec->checkpoint_process_python = choice == 1;
    }
    spec->checkpoint_timeout_ns = 30ull * BH_NS_PER_S;
    (void)bh_jget_duration(&checkpoint, "timeout", &spec->checkpoint_timeout_ns);
    (void)bh_jget_bool(&checkpoint, "repeat", &spec->checkpoint_repeat);
}

static void read_record(const struct bh_jget *top, struct bh_job_spec *spec)
{
    json_t *value = bh_jget_value(top, "record");
    struct bh_jget record;
    spec->record = !spec->external;
    if (json_is_false(value)) {
        spec->record = false;
        return;
    }
    if (!bh_jget_child(top, "record", record_members, &record))
        return;
    (void)bh_jget_bool(&record, "enabled", &spec->record);
    (void)bh_jget_u64(&record, "max_entries", 0, INT64_MAX, &spec->max_entries);
    (void)bh_jget_size(&record, "min_size", &spec->min_size_bytes);
    (void)bh_jget_size(&record, "trace_max_bytes", &spec->trace_max_bytes);
    int stacks = 0;
    if (bh_jget_choice(&record, "stacks", stacks_choices, &stacks))
        spec->stacks = (enum bh_stacks)stacks;
    uint64_t depth = 0;
    if (bh_jget_u64(&record, "depth", 1, 128, &depth))
        spec->depth = (uint32_t)depth;
}

static void read_owner(const struct bh_jget *top, struct bh_job_spec *spec)
{
    int choice = 0;
    if (bh_jget_choice(top, "on_server_exit", keep_choices, &choice))
        spec->end_with_server = choice == 1;
    if (bh_jget_choice(top, "on_owner_exit", owner_choices, &choice))
        spec->stop_with_owner = choice == 1;
    struct bh_jget owner;
    uint64_t pid = 0;
    if (bh_jget_child(top, "owner", owner_members, &owner)) {
        if (bh_jget_u64(&owner, "pid", 2, INT32_MAX, &pid))
            spec->owner_pid = (int)pid;
        else if (!bh_jget_has(&owner, "pid"))
            bh_jget_refuse(&owner, BH_E_MISSING_MEMBER, "pid", "Say which process owns the job.");
    }
    if (spec->stop_with_owner && !spec->owner_pid)
        bh_jget_refuse(top, BH_E_MISSING_MEMBER, "owner",
                       "\"on_owner_exit\": \"stop\" needs an owner.");
}

static void read_policy(const struct bh_jget *top, struct bh_job_spec *spec)
{
    read_mode(top, spec);
    read_bands(top, spec);
    (void)bh_jget_duration(top, "wall_time", &spec->wall_time_ns);
    (void)bh_jget_duration(top, "sample_interval", &spec->interval_ns);
    (void)bh_jget_duration(top, "min_sample_interval", &spec->min_interval_ns);
    read_u32(top, "max_unusable", 1, &spec->max_unusable);
    struct bh_jget breach;
    if (bh_jget_child(top, "breach", breach_members, &breach)) {
        read_u32(&breach, "count", 1, &spec->breach_count);
        (void)bh_jget_duration(&breach, "hold", &spec->breach_hold_ns);
    }
}

static void read_top(const struct bh_jget *top, struct bh_launch_request *launch,
                     struct arrays *arrays)
{
    struct bh_job_spec *spec = &launch->spec;
    struct bh_diag diag = {0};
    int choice = 0;
    (void)bh_jget_bool(top, "external", &spec->external);
    read_command(top, spec, arrays);
    if (spec->external && bh_jget_has(top, "command"))
        bh_jget_refuse(top, BH_E_INVALID_VALUE, "command", "An external job has no command.");
    else if (!spec->external && !bh_jget_has(top, "command"))
        bh_jget_refuse(top, BH_E_MISSING_MEMBER, "command",
                       "Give the program and its arguments as an array of strings.");
    if (bh_jget_text(top, "name", &spec->name) && bh_text_job_name(spec->name, "name", &diag) < 0)
        bh_jget_refuse(top, BH_E_INVALID_VALUE, "name", "%s.", diag.detail);
    if (bh_jget_choice(top, "if_exists", exists_choices, &choice))
        launch->return_existing = choice == 1;
    if (bh_jget_text(top, "cwd", &spec->cwd) && spec->cwd[0] != '/')
        bh_jget_refuse(top, BH_E_INVALID_VALUE, "cwd", "Give an absolute path.");
    (void)bh_jget_bool(top, "force", &spec->force);
    (void)bh_jget_bool(top, "brake", &spec->brake);
    read_env(top, spec, arrays);
    read_labels(top, spec, arrays);
    read_policy(top, spec);
    read_stop(top, spec);
    read_checkpoint(top, spec);
    read_record(top, spec);
    read_owner(top, spec);
}

/* What bh_job_spec_resolve finds wrong, as a mistake with a pointer. */
static void resolve(struct bh_job_spec *spec, struct bh_problem *problem)
{
    struct bh_diag diag = {0};
    int result = bh_job_spec_resolve(spec, &diag);
    if (result >= 0)
        return;
    static const char *const bands[] = {"warning", "recovery", "emergency", NULL};
    char pointer[128];
    (void)snprintf(pointer, sizeof pointer, "/%s", diag.field);
    for (size_t i = 0; bands[i]; i++) {
        if (strcmp(diag.field, bands[i]) == 0)
            (void)snprintf(pointer, sizeof pointer, "/bands/%s", bands[i]);
    }
    bh_problem_add(problem, result, pointer, "%s", diag.detail);
}

/* Takes root. */
static int read_root(json_t *root, struct bh_launch_request *ret_launch, struct bh_problem *problem)
{
    struct arrays *arrays = calloc(1, sizeof *arrays);
    if (!arrays) {
        json_decref(root);
        problem->error = BH_E_NOMEM;
        return BH_E_NOMEM;
    }
    struct bh_launch_request launch = {.root = root, .arrays = arrays};
    bh_job_spec_init(&launch.spec);
    struct bh_jget top;
    bh_jget_open(&top, root, "", top_members, problem);
    if (top.object)
        read_top(&top, &launch, arrays);
    if (problem->error == 0 && !launch.spec.external)
        resolve(&launch.spec, problem);
    if (problem->error == BH_E_MODE_MISSING)
        bh_problem_set(
            problem, BH_E_MODE_MISSING,
            "Give limit (for example \"6GiB\") to guard the job, or \"mode\": \"observe\" "
            "to watch it without one.");
    if (problem->error) {
        bh_launch_done(&launch);
        return problem->error;
    }
    *ret_launch = launch;
    return BH_OK;
}

int bh_job_json_read(const void *data, size_t length, struct bh_launch_request *ret_launch,
                     struct bh_problem *problem)
{
    json_t *root = bh_jget_parse(data, length, problem);
    return root ? read_root(root, ret_launch, problem) : problem->error;
}

int bh_job_json_read_over(const struct bh_bytes *base, const void *data, size_t length,
                          struct bh_launch_request *ret_launch, struct bh_problem *problem)
{
    json_t *root = bh_jget_parse(base->data, base->length, problem);
    if (!root)
        return problem->error;
    json_t *over = length ? bh_jget_parse(data, length, problem) : json_object();
    if (!over || !json_is_object(over) || json_object_update(root, over) < 0) {
        if (over && !problem->error)
            bh_problem_add(problem, BH_E_INVALID_VALUE, "", "A JSON object is wanted here.");
        json_decref(over);
        json_decref(root);
        return problem->error ? problem->error : BH_E_NOMEM;
    }
    json_decref(over); /* its values live on in root */
    return read_root(root, ret_launch, problem);
}

void bh_launch_done(struct bh_launch_request *launch)
{
    json_decref(launch->root);
    free(launch->arrays);
    launch->root = NULL;
    launch->arrays = NULL;
}

/* A size that must be above 0: 0 stands for "not given" in a command. True when it was given. */
static bool read_limit(const struct bh_jget *reader, const char *key, uint64_t *ret_bytes)
{
    if (bh_jget_size(reader, key, ret_bytes) && *ret_bytes == 0)
        bh_jget_refuse(reader, BH_E_INVALID_VALUE, key, "Give a size above 0.");
    return bh_jget_has(reader, key);
}

int bh_limits_json_read(const void *data, size_t length, struct bh_command *ret_command,
                        struct bh_problem *problem)
{
    static const char *const members[] = {"limit", "bands", NULL};
    json_t *root = bh_jget_parse(data, length, problem);
    if (!root)
        return problem->error;
    struct bh_jget top;
    struct bh_jget bands;
    bh_jget_open(&top, root, "", members, problem);
    bool any = read_limit(&top, "limit", &ret_command->limit_bytes);
    if (bh_jget_child(&top, "bands", band_members, &bands)) {
        any |= read_limit(&bands, "warning", &ret_command->warning_bytes);
        any |= read_limit(&bands, "recovery", &ret_command->recovery_bytes);
        any |= read_limit(&bands, "emergency", &ret_command->emergency_bytes);
    }
    if (problem->error == 0 && !any)
        bh_jget_refuse(&top, BH_E_MISSING_MEMBER, "limit",
                       "Give limit, or warning, recovery or emergency in bands.");
    json_decref(root);
    return problem->error;
}
