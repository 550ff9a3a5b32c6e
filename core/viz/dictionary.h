/* Names of a trace: strings, frames, stacks and process images by their job-wide ids.
 *
 * Filled from the log's definitions; whoever holds it across requests (the server, per job) adds
 * the definitions of new segments. Reading from several threads is fine while nobody adds. Texts
 * are valid UTF-8 whatever the log holds: wrong bytes became U+FFFD. Equal content under two ids (a
 * scribe that took over) has one key. */
#ifndef BH_VIZ_DICTIONARY_H
#define BH_VIZ_DICTIONARY_H

#include "core/viz/source.h"

struct bh_dictionary;

struct bh_text {
    const char *bytes; /* terminated too; never NULL */
    size_t length;
};

struct bh_frame {
    uint32_t file, function; /* string ids */
    uint32_t line;           /* 0 = unknown */
};

struct bh_image {
    uint32_t id;
    int pid;
    uint64_t start_token;
    uint32_t number;      /* n of the ring's name: counts execs */
    uint32_t mlx_version; /* string id, 0 = unknown */
};

int bh_dictionary_new(struct bh_dictionary **ret_dictionary);
void bh_dictionary_free(struct bh_dictionary *dictionary);
/* Takes a STRING, FRAME, STACK or IMAGE and ignores other kinds. BH_E_MALFORMED for an id that is
 * not the next one or names something not yet defined; an id given again is ignored. */
int bh_dictionary_add(struct bh_dictionary *dictionary, const struct bh_evlog_record *record);
/* All definitions of a source. */
int bh_dictionary_load(struct bh_dictionary *dictionary, const struct bh_trace_source *source);

/* "" for 0 and for ids that do not exist. */
struct bh_text bh_dictionary_string(const struct bh_dictionary *dictionary, uint32_t id);
/* All zero for ids that do not exist. */
struct bh_frame bh_dictionary_frame(const struct bh_dictionary *dictionary, uint32_t id);
/* Frame ids, innermost first; NULL and 0 for ids that do not exist. */
const uint32_t *bh_dictionary_stack(const struct bh_dictionary *dictionary, uint32_t id,
                                    uint32_t *ret_count);
/* The lowest id with the same content; 0 for 0 and ids that do not exist. */
uint32_t bh_dictionary_string_key(const struct bh_dictionary *dictionary, uint32_t id);
uint32_t bh_dictionary_stack_key(const struct bh_dictionary *dictionary, uint32_t id);

uint32_t bh_dictionary_images(const struct bh_dictionary *dictionary);
/* ids 1..images; NULL beyond. */
const struct bh_image *bh_dictionary_image(const struct bh_dictionary *dictionary, uint32_t id);

#endif
