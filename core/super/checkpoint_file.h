/* The file or directory of a signal checkpoint: has it changed, and is it whole. What is looked at
 * may lie on a disk that does not answer, so only the helper of checkpoint_look.h calls this. May
 * block, may allocate. */
#ifndef BH_SUPER_CHECKPOINT_FILE_H
#define BH_SUPER_CHECKPOINT_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* What tells one state of it from another. Of a directory: all that lies in it, BH_CHECKPOINT_DEPTH
 * levels down and at most BH_CHECKPOINT_ENTRIES of them: a shard that still grows changes nothing
 * in the directory itself. Links inside are not followed. */
struct bh_checkpoint_mark {
    bool exists, directory;
    uint64_t inode, size_bytes; /* of a directory: the files in it together */
    int64_t mtime_ns;           /* newest */
    uint64_t digest;            /* of names, sizes, times and inodes in a directory */
};

#define BH_CHECKPOINT_DEPTH   8
#define BH_CHECKPOINT_ENTRIES 65536

void bh_checkpoint_file_mark(int dirfd, const char *path, struct bh_checkpoint_mark *ret_mark);
bool bh_checkpoint_mark_equal(const struct bh_checkpoint_mark *left,
                              const struct bh_checkpoint_mark *right);
/* .safetensors: the header's byte ranges fit the size. .npz, .zip: the end record is there. Any
 * other name: not empty. A directory: each such file in it is whole, and one at least is not empty.
 */
bool bh_checkpoint_file_whole(int dirfd, const char *path);

#endif
