/* Body of spec.bin: one TLV item per member that is not zero. Numbers and flags are in the table
 * below; texts and lists have tags 128 and up, each list entry an item of its own in order:
 * 128 name, 129 cwd, 130 checkpoint path, 131 recorder path, 132 relaunch of, 140 argument,
 * 141 environment entry, 142 label (groups of 1 key, 2 value; an empty value is left out). */
#include "core/wire/spec_file.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/crc32c.h"
#include "core/base/text.h"
#include "core/wire/fields.h"
#include "core/wire/le.h"

#define F(tag, type, member)     BH_FIELD(struct bh_job_spec, tag, type, member)
#define E(tag, member, greatest) BH_FIELD_UP_TO(struct bh_job_spec, tag, member, greatest)

static const struct bh_field fields[] = {
    F(1, TEXT, id),
    F(2, BOOL, clear_env),
    E(3, mode, BH_MODE_OBSERVE),
    F(4, UNSIGNED, limit_bytes),
    F(5, UNSIGNED, warning_bytes),
    F(6, UNSIGNED, recovery_bytes),
    F(7, UNSIGNED, emergency_bytes),
    F(8, BOOL, bands_given),
    F(9, UNSIGNED, breach_count),
    F(10, UNSIGNED, breach_hold_ns),
    F(11, UNSIGNED, max_unusable),
    F(12, UNSIGNED, interval_ns),
    F(13, UNSIGNED, min_interval_ns),
    F(14, UNSIGNED, wall_time_ns),
    E(15, checkpoint_kind, BH_CHECKPOINT_SIGNAL),
    F(16, UNSIGNED, checkpoint_timeout_ns),
    F(17, BOOL, checkpoint_repeat),
    F(18, SIGNED, checkpoint_signal),
    F(19, BOOL, checkpoint_process_python),
    F(20, SIGNED, stop_signal),
    F(21, UNSIGNED, grace_base_ns),
    F(22, UNSIGNED, grace_per_gib_ns),
    F(23, UNSIGNED, grace_max_ns),
    E(24, emergency_action, BH_EMERGENCY_TERM),
    F(25, UNSIGNED, kill_retry_ns),
    F(26, UNSIGNED, kill_wait_ns),
    F(27, BOOL, brake),
    F(28, BOOL, record),
    E(29, stacks, BH_STACKS_ALL),
    F(30, UNSIGNED, depth),
    F(31, UNSIGNED, min_size_bytes),
    F(32, UNSIGNED, max_entries),
    F(33, UNSIGNED, trace_max_bytes),
    F(34, BOOL, end_with_server),
    F(35, SIGNED, owner_pid),
    F(36, UNSIGNED, owner_start_token),
    F(37, BOOL, stop_with_owner),
    F(38, BOOL, external),
    F(39, BOOL, force),
    F(40, UNSIGNED, log_max_bytes),
    F(41, SIGNED, created_at),
    F(42, BOOL, warning_given),
    F(43, BOOL, recovery_given),
    F(44, BOOL, emergency_given),
};
#define FIELD_COUNT (sizeof fields / sizeof fields[0])

enum {
    TAG_NAME = 128,
    TAG_CWD = 129,
    TAG_CHECKPOINT_PATH = 130,
    TAG_RECORDER_PATH = 131,
    TAG_RELAUNCH_OF = 132,
    TAG_ARGUMENT = 140,
    TAG_ENVIRONMENT = 141,
    TAG_LABEL = 142,
    TAG_PAIR_KEY = 1,
    TAG_PAIR_VALUE = 2,
};

/* ---- encode ---- */

static void put_pairs(struct bh_tlv_writer *writer, uint16_t tag, const struct bh_text_pair *pairs,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t mark = bh_tlv_group(writer, tag);
        bh_tlv_text(writer, TAG_PAIR_KEY, pairs[i].key);
        bh_tlv_text(writer, TAG_PAIR_VALUE, pairs[i].value);
        bh_tlv_group_end(writer, mark);
    }
}

static void put_body(struct bh_tlv_writer *writer, const struct bh_job_spec *spec)
{
    bh_fields_encode(fields, FIELD_COUNT, spec, writer);
    bh_tlv_text(writer, TAG_NAME, spec->name);
    bh_tlv_text(writer, TAG_CWD, spec->cwd);
    bh_tlv_text(writer, TAG_CHECKPOINT_PATH, spec->checkpoint_path);
    bh_tlv_text(writer, TAG_RECORDER_PATH, spec->recorder_path);
    bh_tlv_text(writer, TAG_RELAUNCH_OF, spec->relaunch_of);
    for (size_t i = 0; i < spec->argc; i++)
        bh_tlv_text(writer, TAG_ARGUMENT, spec->argv[i]);
    put_pairs(writer, TAG_ENVIRONMENT, spec->env, spec->env_count);
    put_pairs(writer, TAG_LABEL, spec->labels, spec->label_count);
}

int bh_spec_file_encode(const struct bh_job_spec *spec, struct bh_bytes *ret_bytes,
                        struct bh_diag *diag)
{
    if (spec->argc > BH_SPEC_MAX_ARGUMENTS)
        return bh_err_set(diag, BH_E_TOO_LONG, "command", "command has more than %d arguments",
                          BH_SPEC_MAX_ARGUMENTS);
    if (spec->env_count > BH_SPEC_MAX_ENVIRONMENT)
        return bh_err_set(diag, BH_E_TOO_LONG, "env", "env has more than %d entries",
                          BH_SPEC_MAX_ENVIRONMENT);
    if (spec->label_count > BH_SPEC_MAX_LABELS)
        return bh_err_set(diag, BH_E_TOO_LONG, "labels", "labels has more than %d entries",
                          BH_SPEC_MAX_LABELS);
    size_t most = BH_SPEC_FILE_HEADER_BYTES + BH_SPEC_MAX_BYTES;
    unsigned char *at = bh_bytes_reserve(ret_bytes, most);
    if (!at)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "no memory for the job's spec");
    struct bh_tlv_writer writer;
    bh_tlv_begin(&writer, at + BH_SPEC_FILE_HEADER_BYTES, BH_SPEC_MAX_BYTES);
    put_body(&writer, spec);
    if (writer.overflow)
        return bh_err_set(diag, BH_E_TOO_LONG, NULL,
                          "command and env together are larger than %u bytes", BH_SPEC_MAX_BYTES);
    memset(at, 0, BH_SPEC_FILE_HEADER_BYTES);
    bh_le_put32(at, BH_SPEC_FILE_MAGIC);
    bh_le_put16(at + 4, BH_SPEC_FILE_VERSION);
    bh_le_put16(at + 6, BH_SPEC_FILE_HEADER_BYTES);
    bh_le_put32(at + 12, (uint32_t)writer.length);
    bh_le_put32(at + 16, bh_crc32c(0, at + BH_SPEC_FILE_HEADER_BYTES, writer.length));
    bh_le_put32(at + 20, bh_crc32c(0, at, 20));
    ret_bytes->length += BH_SPEC_FILE_HEADER_BYTES + writer.length;
    ret_bytes->data[ret_bytes->length] = '\0';
    return BH_OK;
}

/* ---- decode ---- */

/* One allocation: the spec, its pointer lists, then the texts. */
struct holder {
    struct bh_job_spec spec;
    const char **argv;
    struct bh_text_pair *env;
    struct bh_text_pair *labels;
    char *text; /* next free byte */
    size_t text_left;
};

struct counts {
    size_t arguments, environment, labels, text_bytes;
};

static int check_header(const unsigned char *at, size_t length, struct bh_diag *diag)
{
    if (length < BH_SPEC_FILE_HEADER_BYTES)
        return bh_err_set(diag, BH_E_TRUNCATED, NULL, "spec.bin is cut");
    if (bh_le_get32(at) != BH_SPEC_FILE_MAGIC)
        return bh_err_set(diag, BH_E_MALFORMED, NULL, "spec.bin is no spec");
    if (bh_le_get16(at + 4) != BH_SPEC_FILE_VERSION)
        return bh_err_set(diag, BH_E_VERSION, NULL, "spec.bin has version %u", bh_le_get16(at + 4));
    if (bh_le_get32(at + 20) != bh_crc32c(0, at, 20))
        return bh_err_set(diag, BH_E_CHECKSUM, NULL, "spec.bin has a damaged header");
    if (bh_le_get16(at + 6) != BH_SPEC_FILE_HEADER_BYTES ||
        bh_le_get32(at + 12) > BH_SPEC_MAX_BYTES)
        return bh_err_set(diag, BH_E_MALFORMED, NULL, "spec.bin has other sizes");
    if (bh_le_get32(at + 8) != 0)
        return bh_err_set(diag, BH_E_VERSION, NULL, "spec.bin needs a newer version");
    size_t body = bh_le_get32(at + 12);
    if (length - BH_SPEC_FILE_HEADER_BYTES != body)
        return bh_err_set(diag, BH_E_TRUNCATED, NULL, "spec.bin is cut or has a tail");
    if (bh_le_get32(at + 16) != bh_crc32c(0, at + BH_SPEC_FILE_HEADER_BYTES, body))
        return bh_err_set(diag, BH_E_CHECKSUM, NULL, "spec.bin has a damaged body");
    return BH_OK;
}

static int count_items(const unsigned char *body, size_t length, struct counts *ret_counts)
{
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    int result;
    bh_tlv_open(&reader, body, length);
    while ((result = bh_tlv_next(&reader, &item)) == 1) {
        ret_counts->arguments += item.tag == TAG_ARGUMENT;
        ret_counts->environment += item.tag == TAG_ENVIRONMENT;
        ret_counts->labels += item.tag == TAG_LABEL;
        if (item.tag >= TAG_NAME)
            ret_counts->text_bytes += item.length + 1; /* a group's headers pay for its two ends */
    }
    if (result == 0 && (ret_counts->arguments > BH_SPEC_MAX_ARGUMENTS ||
                        ret_counts->environment > BH_SPEC_MAX_ENVIRONMENT ||
                        ret_counts->labels > BH_SPEC_MAX_LABELS))
        result = BH_E_TOO_LONG;
    return result;
}

static struct holder *new_holder(const struct counts *counts)
{
    size_t pairs = counts->environment + counts->labels;
    size_t bytes = sizeof(struct holder) + (counts->arguments + 1) * sizeof(char *) +
                   pairs * sizeof(struct bh_text_pair) + counts->text_bytes;
    struct holder *holder = calloc(1, bytes);
    if (!holder)
        return NULL;
    holder->argv = (const char **)(holder + 1);
    holder->env = (struct bh_text_pair *)(void *)(holder->argv + counts->arguments + 1);
    holder->labels = holder->env + counts->environment;
    holder->text = (char *)(holder->labels + counts->labels);
    holder->text_left = counts->text_bytes;
    return holder;
}

/* A terminated copy of a TEXT item in the holder's text area. */
static int keep_text(struct holder *holder, const struct bh_tlv_item *item, const char **ret_text)
{
    if (item->kind != BH_TLV_TEXT || memchr(item->value, 0, item->length) ||
        item->length >= holder->text_left)
        return BH_E_MALFORMED;
    memcpy(holder->text, item->value, item->length);
    *ret_text = holder->text;
    holder->text += item->length + 1; /* calloc terminated it */
    holder->text_left -= item->length + 1;
    return BH_OK;
}

static int keep_pair(struct holder *holder, const struct bh_tlv_item *group,
                     struct bh_text_pair *ret_pair)
{
    if (group->kind != BH_TLV_GROUP)
        return BH_E_MALFORMED;
    struct bh_text_pair pair = {NULL, ""};
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    int result;
    bh_tlv_open(&reader, group->value, group->length);
    while ((result = bh_tlv_next(&reader, &item)) == 1) {
        bool key = item.tag == TAG_PAIR_KEY;
        if (!key && item.tag != TAG_PAIR_VALUE)
            continue;
        result = keep_text(holder, &item, key ? &pair.key : &pair.value);
        if (result < 0)
            return result;
    }
    if (result < 0)
        return result;
    if (!pair.key || pair.key[0] == '\0')
        return BH_E_MALFORMED;
    *ret_pair = pair;
    return BH_OK;
}

static int keep_item(struct holder *holder, const struct bh_tlv_item *item)
{
    struct bh_job_spec *spec = &holder->spec;
    switch (item->tag) {
    case TAG_NAME:
        return keep_text(holder, item, &spec->name);
    case TAG_CWD:
        return keep_text(holder, item, &spec->cwd);
    case TAG_CHECKPOINT_PATH:
        return keep_text(holder, item, &spec->checkpoint_path);
    case TAG_RECORDER_PATH:
        return keep_text(holder, item, &spec->recorder_path);
    case TAG_RELAUNCH_OF:
        return keep_text(holder, item, &spec->relaunch_of);
    case TAG_ARGUMENT:
        return keep_text(holder, item, &holder->argv[spec->argc++]);
    case TAG_ENVIRONMENT:
        return keep_pair(holder, item, &holder->env[spec->env_count++]);
    case TAG_LABEL:
        return keep_pair(holder, item, &holder->labels[spec->label_count++]);
    default: {
        int result = bh_fields_decode_item(fields, FIELD_COUNT, item, spec);
        return result == 0 && item->required ? BH_E_VERSION : result;
    }
    }
}

static int keep_items(struct holder *holder, const unsigned char *body, size_t length)
{
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    int result;
    bh_tlv_open(&reader, body, length);
    while ((result = bh_tlv_next(&reader, &item)) == 1) {
        result = keep_item(holder, &item);
        if (result < 0)
            return result;
    }
    return result;
}

int bh_spec_file_decode(const void *data, size_t length, struct bh_job_spec **ret_spec,
                        struct bh_diag *diag)
{
    int result = check_header(data, length, diag);
    if (result < 0)
        return result;
    const unsigned char *body = (const unsigned char *)data + BH_SPEC_FILE_HEADER_BYTES;
    size_t body_length = length - BH_SPEC_FILE_HEADER_BYTES;
    struct counts counts = {0};
    result = count_items(body, body_length, &counts);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "spec.bin has a damaged body");
    struct holder *holder = new_holder(&counts);
    if (!holder)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "no memory for the job's spec");
    result = keep_items(holder, body, body_length);
    if (result == BH_OK && !bh_text_is_job_id(holder->spec.id))
        result = BH_E_MALFORMED;
    if (result < 0) {
        free(holder);
        return bh_err_set(diag, result, NULL, "spec.bin has a damaged body");
    }
    holder->spec.argv = holder->argv;
    holder->spec.env = holder->env;
    holder->spec.labels = holder->labels;
    *ret_spec = &holder->spec;
    return BH_OK;
}

void bh_spec_file_free(struct bh_job_spec *spec)
{
    free(spec); /* first member of its holder */
}
