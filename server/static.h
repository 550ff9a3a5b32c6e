/* The page's files, read into memory at start: the allow-list is what the web build directory held
 * then, and a request is a lookup in it, never a joined path. Loop thread only.
 *
 * Without a web directory `/` answers a short text that says where the API is. Only names of
 * [A-Za-z0-9._-] in at most two folders, regular files below 4 MiB, at most 128 of them. */
#ifndef BH_SERVER_STATIC_H
#define BH_SERVER_STATIC_H

#include "api/api_types.h"

struct bh_static;

/* directory: "" or one that is not there = no page. */
int bh_static_load(const char *directory, struct bh_static **ret_static, struct bh_diag *diag);
void bh_static_free(struct bh_static *files);
/* Whether a decoded path names one of the files ("/" is index.html). */
bool bh_static_has(const struct bh_static *files, const char *path);
/* Answers the call with it; 304 for a matching If-None-Match. */
void bh_static_answer(const struct bh_static *files, struct bh_call *call);

#endif
