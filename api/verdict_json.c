#include "api/verdict_json.h"

#include <jansson.h>
#include <string.h>

#include "core/base/text.h"

int bh_verdict_read(const char *text, size_t length, struct bh_diag *diag)
{
    json_t *root = json_loadb(text, length, JSON_DISABLE_EOF_CHECK, NULL);
    const char *code = json_string_value(json_object_get(root, "code"));
    const char *detail = json_string_value(json_object_get(root, "detail"));
    int error = code ? bh_err_from_code(code) : BH_OK;
    if (error < 0) {
        char sentence[256];
        if (!detail || !*detail)
            detail = bh_err_title(error);
        /* the field is the supervisor's, not a member of the request: launch.c knows the pointer */
        (void)bh_err_set(diag, error, NULL, "%s",
                         bh_text_escape(detail, strlen(detail), sentence, sizeof sentence));
    }
    json_decref(root);
    return error;
}
