/* The checkpoint socket's frames, protocol version 1: wire-compatible with workers written for
 * mlx-guard (who may send what: core/super/supervision.md, section 10). The only big-endian format
 * of the product.
 *
 *     offset 0   u32 big-endian body length, at most BH_CKPT_MAX_BODY
 *     offset 4   "MGCP"
 *     offset 8   u8 version, 1
 *     offset 9   u8 kind
 *     offset 10  by kind:
 *         3 hello, 4 ready          nonce (32)                                       body 38
 *         1 request                 nonce, u64 request id, u64 deadline ns           body 54
 *         2 acknowledgement         nonce, u64 request id, u8 status, u8 artifact    body 57
 *                                   kind, u8 has-size, u64 size
 *
 * A body of another length than its kind's is malformed. Id 0, deadline 0, a status or artifact
 * kind outside its list, a size without has-size, a size on artifact kind none: malformed. */
#ifndef BH_WIRE_CKPT_H
#define BH_WIRE_CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

#define BH_CKPT_VERSION     1
#define BH_CKPT_MAX_BODY    128u
#define BH_CKPT_MAX_FRAME   (4u + BH_CKPT_MAX_BODY)
#define BH_CKPT_NONCE_BYTES 32

enum bh_ckpt_kind {
    BH_CKPT_KIND_REQUEST = 1,
    BH_CKPT_KIND_ACK = 2,
    BH_CKPT_KIND_HELLO = 3,
    BH_CKPT_KIND_WORKER_READY = 4,
};

enum bh_ckpt_status {
    BH_CKPT_STATUS_COMPLETED = 1,
    BH_CKPT_STATUS_FAILED = 2,
    BH_CKPT_STATUS_CANCELLED = 3,
};

struct bh_ckpt_frame {
    enum bh_ckpt_kind kind;
    unsigned char nonce[BH_CKPT_NONCE_BYTES];
    uint64_t request_id;        /* request, acknowledgement */
    uint64_t deadline_ns;       /* request */
    enum bh_ckpt_status status; /* acknowledgement, as the rest */
    uint8_t artifact_kind;      /* 0 none, 1 file, 2 directory, 3 opaque */
    bool has_size;
    uint64_t size_bytes;
};

/* Returns the whole length. ret_data has room for BH_CKPT_MAX_FRAME. */
int bh_ckpt_encode(const struct bh_ckpt_frame *frame,
                   unsigned char ret_data[static BH_CKPT_MAX_FRAME]);
/* One frame at the start of data: its length, 0 when more bytes are needed, BH_E_TOO_LONG or
 * BH_E_MALFORMED, BH_E_VERSION. */
int bh_ckpt_decode(const void *data, size_t length, struct bh_ckpt_frame *ret_frame);
/* Length of the frame at the start of data, also of a malformed one; 0 when more is needed,
 * BH_E_TOO_LONG when it can be no frame. */
int bh_ckpt_frame_length(const void *data, size_t length);

#endif
