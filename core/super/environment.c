#include "core/super/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/super/checkpoint.h"

static const char *const reserved[] = {"BULKHEAD_", "MLX_GUARD_", "LISTEN_", "NOTIFY_SOCKET="};

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_reserved(const char *item)
{
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (starts_with(item, reserved[i]))
            return true;
    }
    return false;
}

static size_t name_length(const char *item)
{
    return strcspn(item, "=");
}

static char **find(const struct bh_environment *environment, const char *name, size_t length)
{
    for (size_t i = 0; i < environment->count; i++) {
        if (name_length(environment->items[i]) == length &&
            memcmp(environment->items[i], name, length) == 0)
            return &environment->items[i];
    }
    return NULL;
}

const char *bh_environment_get(const struct bh_environment *environment, const char *name)
{
    char **item = find(environment, name, strlen(name));
    return item ? *item + strlen(name) + 1 : NULL;
}

/* Takes the item over, in place of an earlier one of its name. */
static int put(struct bh_environment *environment, char *item)
{
    if (!item)
        return BH_E_NOMEM;
    char **there = find(environment, item, name_length(item));
    if (there) {
        free(*there);
        *there = item;
        return BH_OK;
    }
    char **grown = realloc(environment->items, (environment->count + 2) * sizeof *grown);
    if (!grown) {
        free(item);
        return BH_E_NOMEM;
    }
    grown[environment->count++] = item;
    grown[environment->count] = NULL;
    environment->items = grown;
    return BH_OK;
}

static int set(struct bh_environment *environment, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    char *item = malloc(size);
    if (item)
        (void)snprintf(item, size, "%s=%s", name, value);
    return put(environment, item);
}

static int copy_own(struct bh_environment *environment, char *const *own)
{
    int result = BH_OK;
    for (size_t i = 0; own && own[i] && result == BH_OK; i++) {
        if (!is_reserved(own[i]) && strchr(own[i], '='))
            result = put(environment, strdup(own[i]));
    }
    return result;
}

static int add_spec(struct bh_environment *environment, const struct bh_job_spec *spec,
                    struct bh_diag *diag)
{
    for (size_t i = 0; i < spec->env_count; i++) {
        char start[32];
        (void)snprintf(start, sizeof start, "%.24s=", spec->env[i].key);
        if (!spec->env[i].key[0] || strchr(spec->env[i].key, '=') || is_reserved(start))
            return bh_err_set(diag, BH_E_INVALID_VALUE, "env",
                              "%.64s cannot be set: the name is reserved or no name",
                              spec->env[i].key);
        int result = set(environment, spec->env[i].key, spec->env[i].value);
        if (result < 0)
            return result;
    }
    return BH_OK;
}

static const char *stacks_text(enum bh_stacks stacks)
{
    switch (stacks) {
    case BH_STACKS_NONE:
        return "none";
    case BH_STACKS_PYTHON:
        return "python";
    case BH_STACKS_ALL:
        return "all";
    }
    return "python";
}

static int add_preload(struct bh_environment *environment, const char *library)
{
    const char *there = bh_environment_get(environment, "LD_PRELOAD");
    char value[2 * PATH_MAX];
    int n = there && *there ? snprintf(value, sizeof value, "%s:%s", there, library)
                            : snprintf(value, sizeof value, "%s", library);
    if (n < 0 || (size_t)n >= sizeof value)
        return BH_E_TOO_LONG;
    return set(environment, "LD_PRELOAD", value);
}

static int add_recorder(struct bh_environment *environment, const struct bh_run *run)
{
    const struct bh_job_spec *spec = run->spec;
    char options[128], rings[PATH_MAX + 16];
    if (!spec->record || !spec->recorder_path)
        return BH_OK;
    (void)snprintf(options, sizeof options, "v1;stacks=%s;depth=%u;min=%llu",
                   stacks_text(spec->stacks), spec->depth,
                   (unsigned long long)spec->min_size_bytes);
    (void)snprintf(rings, sizeof rings, "%s/%s", run->runtime_path, BH_RUN_RINGS_NAME);
    int result = add_preload(environment, spec->recorder_path);
    if (result == BH_OK)
        result = set(environment, "BULKHEAD_RECORD", options);
    if (result == BH_OK)
        result = set(environment, "BULKHEAD_RING_DIR", rings);
    return result;
}

static int add_channel(struct bh_environment *environment)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%d", BH_CHECKPOINT_JOB_FD);
    int result = set(environment, "MLX_GUARD_CHECKPOINT_FD", number);
    if (result == BH_OK)
        result = set(environment, "BULKHEAD_CHECKPOINT_FD", number);
    return result;
}

static int fill(struct bh_environment *environment, const struct bh_run *run, char *const *own,
                bool checkpoint_channel, struct bh_diag *diag)
{
    const struct bh_job_spec *spec = run->spec;
    int result = spec->clear_env ? BH_OK : copy_own(environment, own);
    if (result == BH_OK)
        result = add_spec(environment, spec, diag);
    /* a log that is buffered in the job looks like a job that hangs */
    if (result == BH_OK && !spec->clear_env && !bh_environment_get(environment, "PYTHONUNBUFFERED"))
        result = set(environment, "PYTHONUNBUFFERED", "1");
    if (result == BH_OK)
        result = add_recorder(environment, run);
    if (result == BH_OK && checkpoint_channel)
        result = add_channel(environment);
    if (result == BH_OK && !environment->items)
        result = (environment->items = calloc(1, sizeof *environment->items)) ? BH_OK : BH_E_NOMEM;
    return result;
}

int bh_environment_build(const struct bh_run *run, char *const *own, bool checkpoint_channel,
                         struct bh_environment *ret_environment, struct bh_diag *diag)
{
    struct bh_environment environment = {0};
    int result = fill(&environment, run, own, checkpoint_channel, diag);
    if (result < 0) {
        bh_environment_done(&environment);
        if (result == BH_E_NOMEM)
            (void)bh_err_set(diag, result, NULL, "no memory for the job's environment");
        return result;
    }
    *ret_environment = environment;
    return BH_OK;
}

void bh_environment_done(struct bh_environment *environment)
{
    for (size_t i = 0; i < environment->count; i++)
        free(environment->items[i]);
    free(environment->items);
    *environment = (struct bh_environment){0};
}
