/* A store in a folder of its own and three jobs to put into it. cmocka.h must have been included.
 */
#ifndef BH_TESTS_STORE_FIXTURE_H
#define BH_TESTS_STORE_FIXTURE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/wire/spec_file.h"
#include "server/store.h"

struct fixture {
    char path[64];
    struct bh_store *store;
    struct bh_store_start start;
};

static const char *const id_of[] = {"0mhq2v9k3dx7c1p5n8t0", "0mhq2v9k3dx7c1p5n8t1",
                                    "0mhq2v9k3dx7c1p5n8t2"};

static inline void reopen(struct fixture *f, bool reindex)
{
    struct bh_diag diag = {0};

    bh_store_close(f->store);
    f->store = NULL;
    assert_int_equal(bh_store_open(f->path, reindex, &f->store, &f->start, &diag), 0);
}

static inline int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    strcpy(f->path, "/tmp/bh-store-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    reopen(f, false);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;

    bh_store_close(f->store);
    assert_int_equal(bh_io_remove_tree(AT_FDCWD, f->path, NULL), 0);
    free(f);
    return 0;
}

static inline void insert(struct fixture *f, int index, const char *name)
{
    static const char *const argv[] = {"python3", "train.py"};
    static const struct bh_text_pair env[] = {{"TOKEN", "hush-hush"}};
    static const struct bh_text_pair labels[] = {{"team", "vision"}};
    struct bh_diag diag = {0};
    struct bh_job_spec spec;

    bh_job_spec_init(&spec);
    strcpy(spec.id, id_of[index]);
    spec.name = name;
    spec.argv = argv;
    spec.argc = 2;
    spec.env = env;
    spec.env_count = 1;
    spec.labels = labels;
    spec.label_count = index == 1 ? 1 : 0;
    spec.mode = BH_MODE_ENFORCE;
    spec.limit_bytes = 1u << 30;
    spec.created_at.us = 1796002200000000 + index;
    spec.recorder_path = "/opt/lib.so";
    assert_int_equal(bh_store_job_insert(f->store, &spec, &diag), 0);
}

#endif
