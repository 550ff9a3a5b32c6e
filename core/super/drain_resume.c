/* Taking up the event log of a scribe that died: its definitions and the buffers that its images
 * still hold are learned again, so that the new scribe goes on as if it were the same. The log says
 * itself how far into each ring it reaches: slots that it has are passed over, also where the ring
 * was not told any more that they are free. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/super/drain_parts.h"

static struct bh_drain_image *image_of(struct bh_drain *drain, uint32_t id)
{
    struct bh_drain_image *image;

    for (image = drain->images; image != NULL; image = image->next) {
        if (image->id == id) {
            return image;
        }
    }
    return NULL;
}

static int learn_image(struct bh_drain *drain, const struct bh_evlog_record *record)
{
    struct bh_ring_name name = {(uint32_t)record->pid, record->start_token, record->image_number};
    struct bh_drain_image *image = bh_drain_find(drain, &name);

    image = image != NULL ? image : bh_drain_add(drain, &name);
    if (image == NULL) {
        return BH_E_NOMEM;
    }
    image->id = record->image;
    drain->attached = true;
    return BH_OK;
}

static int learn(struct bh_drain *drain, const struct bh_evlog_record *record)
{
    struct bh_drain_image *image;

    if (record->kind >= BH_EVLOG_STRING && record->kind <= BH_EVLOG_STACK) {
        return bh_drain_ids_learn(&drain->log.ids, record);
    }
    if (record->kind == BH_EVLOG_IMAGE) {
        return learn_image(drain, record);
    }
    if (record->kind == BH_EVLOG_FULL) {
        drain->log.full = true;
    }
    if (record->kind == BH_EVLOG_HOLE) {
        drain->log.holes += record->count;
    }
    if (record->kind <= BH_EVLOG_MARK) {
        drain->log.events++;
    }
    image = image_of(drain, record->image);
    if (image == NULL) {
        return BH_OK;
    }
    if (record->kind == BH_EVLOG_TAKEN) {
        image->told = record->count;
        return BH_OK;
    }
    if (record->kind == BH_EVLOG_IMAGE_END) {
        image->ended = true;
        bh_drain_live_done(&image->live);
        return BH_OK;
    }
    return bh_drain_image_learn(image, record);
}

static int learn_segment(struct bh_drain *drain, const struct bh_evlog_segment *segment)
{
    struct bh_evlog_cursor cursor;
    struct bh_evlog_record record;
    int more;

    bh_evlog_cursor_open(&cursor, segment);
    while ((more = bh_evlog_cursor_next(&cursor, &record)) > 0) {
        int rc = learn(drain, &record);

        if (rc < 0) {
            return rc;
        }
    }
    return more;
}

static int replay(struct bh_drain *drain, uint64_t bytes)
{
    BH_SCOPED_FREE unsigned char *data = malloc(BH_EVLOG_SEGMENT_BYTES);
    uint64_t offset = BH_EVLOG_HEADER_BYTES;

    if (data == NULL) {
        return BH_E_NOMEM;
    }
    while (offset < bytes) {
        struct bh_evlog_segment segment;
        size_t got;
        int length;
        int rc = bh_io_pread(drain->evlog_fd, data, BH_EVLOG_SEGMENT_BYTES, offset, &got);

        length = rc < 0 ? rc : bh_evlog_segment_decode(data, got, &segment);
        if (length <= 0) {
            return length < 0 ? length : BH_E_TRUNCATED;
        }
        rc = learn_segment(drain, &segment);
        if (rc < 0) {
            return rc;
        }
        offset += (uint64_t)length;
    }
    return BH_OK;
}

int bh_drain_resume(struct bh_drain *drain, struct bh_diag *diag)
{
    struct bh_evlog_resume resume;
    struct stat facts;
    int rc;

    if (fstat(drain->evlog_fd, &facts) != 0 || facts.st_size == 0) {
        return BH_OK;
    }
    rc = bh_evlog_resume(drain->evlog_fd, &resume, diag);
    if (rc < 0) {
        return rc;
    }
    rc = replay(drain, resume.bytes);
    if (rc < 0) {
        return bh_err_set(diag, rc, NULL,
                          "the event log of the previous scribe cannot be replayed");
    }
    drain->log.next_sequence = resume.next_sequence;
    drain->log.lost = resume.lost;
    drain->next_image = resume.next_image;
    return BH_OK;
}
