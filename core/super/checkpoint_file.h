/* The file of a signal checkpoint: has it changed, and is it whole. Small bounded reads; a file on
 * a stalled disk can hold the caller up, so only a job that asked for this way pays for it. */
#ifndef BH_SUPER_CHECKPOINT_FILE_H
#define BH_SUPER_CHECKPOINT_FILE_H

#include "core/super/checkpoint.h"

/* Size, time and inode of the file or directory. */
void bh_checkpoint_file_mark(int dirfd, const char *path, struct bh_checkpoint_mark *ret_mark);
bool bh_checkpoint_mark_equal(const struct bh_checkpoint_mark *left,
                              const struct bh_checkpoint_mark *right);
/* .safetensors: the header's byte ranges fit the size. .npz, .zip: the end record is there. Any
 * other name: not empty. */
bool bh_checkpoint_file_whole(int dirfd, const char *path);

#endif
