#include "api/report_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/jget.h"

/* What reclamation.json says of itself has no place inside a report. */
static void drop_own_members(json_t *reclamation)
{
    static const char *const own[] = {"schema", "schema_version", "run_id"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        (void)json_object_del(reclamation, own[i]);
}

int bh_report_merge(const struct bh_bytes *report, const struct bh_bytes *reclamation,
                    struct bh_bytes *ret_body)
{
    int result = BH_E_MALFORMED;
    char *text = NULL;
    json_t *root = json_loadb((const char *)report->data, report->length, 0, NULL);
    json_t *late = json_loadb((const char *)reclamation->data, reclamation->length, 0, NULL);
    if (!json_is_object(root) || !json_is_object(late))
        goto out;
    drop_own_members(late);
    json_t *own = json_object_get(root, "reclamation");
    if (json_is_object(own) ? json_object_update(own, late) < 0
                            : json_object_set(root, "reclamation", late) < 0)
        goto out;
    text = json_dumps(root, JSON_INDENT(2));
    if (text) {
        bh_bytes_append_text(ret_body, text);
        bh_bytes_append_text(ret_body, "\n");
        result = BH_OK;
    }
out:
    free(text);
    json_decref(late);
    json_decref(root);
    return result;
}

/* Finds text among the names of an enum; -1. */
static int find_text(const char *text, const char *(*name_of)(int), int last)
{
    for (int i = 0; i <= last; i++) {
        if (strcmp(name_of(i), text) == 0)
            return i;
    }
    return -1;
}

static void need(struct bh_problem *problem, bool good, const char *pointer, const char *detail)
{
    if (!good)
        bh_problem_add(problem, BH_E_INVALID_VALUE, pointer, "%s", detail);
}

static const char *text_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

int bh_report_read_facts(const void *data, size_t length, const char *id,
                         struct bh_report_facts *ret_facts, struct bh_problem *problem)
{
    json_t *root = bh_jget_parse(data, length, problem);
    if (!root)
        return problem->error;
    json_t *outcome = json_object_get(root, "outcome");
    int kind = find_text(text_at(outcome, "kind"), bh_outcome_text, BH_OUTCOME_UNKILLABLE);
    int cause = find_text(text_at(outcome, "cause"), bh_cause_text, BH_CAUSE_SUPERVISOR_LOST);
    const char *sentence = text_at(outcome, "sentence");
    need(problem, strcmp(text_at(root, "schema"), "bulkhead.report") == 0, "/schema",
         "Must be \"bulkhead.report\".");
    need(problem, json_integer_value(json_object_get(root, "schema_version")) == 1,
         "/schema_version", "Must be 1.");
    need(problem, strcmp(text_at(json_object_get(root, "run"), "run_id"), id) == 0, "/run/run_id",
         "Must be the id of this job.");
    need(problem, kind > BH_OUTCOME_NONE, "/outcome/kind", "Not a known kind.");
    need(problem, cause >= 0, "/outcome/cause", "Not a known cause.");
    need(problem, *sentence != '\0', "/outcome/sentence", "Say in one sentence how it ended.");
    if (problem->error == 0) {
        ret_facts->outcome = (enum bh_outcome_kind)kind;
        ret_facts->cause = (enum bh_cause)cause;
        (void)snprintf(ret_facts->sentence, sizeof ret_facts->sentence, "%s", sentence);
    }
    json_decref(root);
    return problem->error;
}
