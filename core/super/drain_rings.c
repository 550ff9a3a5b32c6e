/* The ring folder: finding rings, opening them, noticing that their processes are gone, giving
 * slots back, removing rings that are done with. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/platform/platform.h"
#include "core/super/drain_parts.h"

#define ASK_PERIOD_NS  (20 * BH_NS_PER_MS)
#define FOLDER_TICK_NS (50 * BH_NS_PER_MS)

struct bh_drain_image *bh_drain_find(struct bh_drain *drain, const struct bh_ring_name *name)
{
    struct bh_drain_image *image;

    for (image = drain->images; image != NULL; image = image->next) {
        if (image->name.pid == name->pid && image->name.start_token == name->start_token &&
            image->name.image == name->image) {
            return image;
        }
    }
    return NULL;
}

struct bh_drain_image *bh_drain_add(struct bh_drain *drain, const struct bh_ring_name *name)
{
    struct bh_drain_image *image;

    if (drain->image_count >= BH_DRAIN_IMAGES_MAX) {
        drain->lossy = true;
        return NULL;
    }
    image = calloc(1, sizeof(*image));
    if (image == NULL) {
        return NULL;
    }
    image->name = *name;
    image->reader.fd = -1;
    image->control_on = true;
    image->next = drain->images;
    drain->images = image;
    drain->image_count++;
    return image;
}

static void keep_reason(struct bh_drain *drain, const char *reason)
{
    if (drain->reason[0] == '\0') {
        (void)bh_text_escape(reason, strlen(reason), drain->reason, sizeof(drain->reason));
    }
}

void bh_drain_give_up(struct bh_drain *drain, struct bh_drain_image *image, const char *why)
{
    if (!image->corrupt || drain->reason[0] == '\0') {
        bh_log(BH_LOG_WARNING, "the ring of process %u is given up: %s", image->name.pid, why);
    }
    image->corrupt = true;
    drain->lossy = true;
    keep_reason(drain, why);
}

static void define_image(struct bh_drain *drain, struct bh_drain_image *image)
{
    const struct bh_ring_header *facts = &image->reader.facts;
    struct bh_mono now = bh_clock_mono();
    struct bh_evlog_record record = {
        .kind = BH_EVLOG_IMAGE,
        .image = drain->next_image,
        .pid = (int)image->name.pid,
        .start_token = image->name.start_token,
        .image_number = image->name.image,
        .at = {facts->created_ns < now.ns ? facts->created_ns : now.ns},
    };

    (void)bh_text_escape(facts->mlx_version, strlen(facts->mlx_version), drain->mlx_version,
                         sizeof(drain->mlx_version));
    (void)bh_drain_string(&drain->log, drain->mlx_version, strlen(drain->mlx_version),
                          &record.text);
    image->id = drain->next_image++;
    (void)bh_drain_log_add(&drain->log, &record);
}

static void open_image(struct bh_drain *drain, struct bh_drain_image *image, const char *file)
{
    struct bh_diag diag = {"", ""};
    int rc = bh_ring_open(drain->rings_fd, file, &image->reader, &diag);

    if (rc < 0) {
        image->reader.fd = -1;
        bh_drain_give_up(drain, image, diag.detail[0] != '\0' ? diag.detail : bh_err_title(rc));
        return;
    }
    image->foreign = bh_ring_foreign(&image->reader);
    image->released = image->reader.next;
    /* a scribe that died told the log how far it was, and the ring no more */
    if ((int64_t)(image->told - image->reader.next) > 0 &&
        (int64_t)(image->reader.facts.head - image->told) >= 0) {
        image->reader.next = image->told;
    }
    image->told = image->reader.next;
    if (image->reader.facts.state == BH_RING_STATE_REFUSED) {
        keep_reason(drain, image->reader.facts.reason);
        drain->refused = true;
        return;
    }
    drain->attached = true;
    if (image->id == 0) {
        define_image(drain, image);
    }
}

/* Did the folder change since it was read? A change within the file system's clock tick of the last
 * reading would not show, so a folder that is that young is read again. */
static bool folder_changed(struct bh_drain *drain)
{
    struct stat facts;
    uint64_t changed_ns, now_ns = (uint64_t)bh_clock_wall().us * BH_NS_PER_US;

    if (fstat(drain->rings_fd, &facts) != 0) {
        return true;
    }
    changed_ns = (uint64_t)facts.st_mtim.tv_sec * BH_NS_PER_S + (uint64_t)facts.st_mtim.tv_nsec;
    if (changed_ns == drain->folder_changed_ns && now_ns - changed_ns > FOLDER_TICK_NS) {
        return false;
    }
    drain->folder_changed_ns = changed_ns;
    return true;
}

void bh_drain_look_for_rings(struct bh_drain *drain)
{
    DIR *folder;
    struct dirent *entry;
    int fd;

    if (!folder_changed(drain)) {
        return;
    }
    fd = openat(drain->rings_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    while ((entry = readdir(folder)) != NULL) {
        struct bh_ring_name name;
        struct bh_drain_image *image;

        if (!bh_ring_name_parse(entry->d_name, &name)) {
            continue;
        }
        image = bh_drain_find(drain, &name);
        if (image == NULL) {
            image = bh_drain_add(drain, &name);
        } else if (image->reader.fd >= 0 || image->ended || image->corrupt) {
            continue;
        }
        if (image != NULL) {
            open_image(drain, image, entry->d_name);
        }
    }
    (void)closedir(folder);
}

/* Has the process ended? One whose pid means somebody else here has when nobody holds the lock on
 * its ring; an exec lets go of it as well. What cannot be found out counts as no. On the way: does
 * it still have its ring mapped? Not when it looks like another program by now. That look can
 * deceive (a program may move its arguments), so it ends nothing; the ring's bytes are not taken
 * off its charge any more, that is all. */
static bool process_ended(struct bh_drain_image *image)
{
    const struct bh_platform *platform = bh_platform_host();
    struct bh_proc_facts facts;
    struct bh_proc proc;
    bool same;
    int rc;

    if (image->foreign && image->reader.fd >= 0) {
        return !bh_ring_held(&image->reader);
    }
    rc = platform->proc_open(platform->self, (int)image->name.pid, &proc, &facts);

    if (rc < 0) {
        return rc == BH_E_NOT_FOUND;
    }
    same = proc.start_token == image->name.start_token;
    platform->proc_close(platform->self, &proc);
    if (!same || facts.state == 'X' || (facts.state == 'Z' && facts.threads <= 1)) {
        return true;
    }
    if (image->image_token == 0) {
        image->image_token = facts.image_token;
    }
    image->unmapped = image->image_token != facts.image_token;
    return false;
}

static bool has_later_image(const struct bh_drain *drain, const struct bh_drain_image *image)
{
    const struct bh_drain_image *other;

    for (other = drain->images; other != NULL; other = other->next) {
        if (other->name.pid == image->name.pid &&
            other->name.start_token == image->name.start_token &&
            other->name.image > image->name.image) {
            return true;
        }
    }
    return false;
}

/* An image ends with its process, or when a later one of the same process appears (in other pid
 * namespaces two processes may have the same numbers). Asking the
 * system about a process costs more than reading its ring, so it is not asked at every step. */
static bool is_gone(const struct bh_drain *drain, struct bh_drain_image *image)
{
    uint64_t now_ns = bh_clock_mono().ns;

    if (!image->foreign && has_later_image(drain, image)) {
        return true;
    }
    if (now_ns - image->asked_ns < ASK_PERIOD_NS) {
        return false;
    }
    image->asked_ns = now_ns;
    return process_ended(image);
}

void bh_drain_refresh(struct bh_drain *drain, struct bh_drain_image *image, bool all_gone)
{
    int rc;

    if (image->ended) {
        return;
    }
    image->gone = image->gone || all_gone || is_gone(drain, image);
    if (image->corrupt || image->reader.fd < 0) {
        return;
    }
    if (image->control_on != drain->recording &&
        bh_ring_control(&image->reader, drain->recording) == BH_OK) {
        image->control_on = drain->recording;
    }
    rc = bh_drain_image_refresh(image, &drain->log, drain->scratch, BH_DRAIN_SCRATCH_BYTES);
    if (rc < 0) {
        bh_drain_give_up(drain, image, bh_err_title(rc));
        return;
    }
    drain->lossy = drain->lossy || (image->header.flags & BH_RING_FLAG_LOSSY) != 0;
    if (image->header.state == BH_RING_STATE_FAILED) {
        drain->lossy = true;
        keep_reason(drain, image->header.reason);
    }
}

/* Takes an image out of the list and forgets it. */
static void drop_image(struct bh_drain *drain, struct bh_drain_image *image)
{
    struct bh_drain_image **link = &drain->images;

    while (*link != image) {
        link = &(*link)->next;
    }
    *link = image->next;
    drain->image_count--;
    bh_drain_image_free(image);
}

static void remove_ring(struct bh_drain *drain, struct bh_drain_image *image)
{
    char name[BH_RING_NAME_SIZE];

    (void)snprintf(name, sizeof(name), "%u-%llu-%u.ring", image->name.pid,
                   (unsigned long long)image->name.start_token, image->name.image);
    bh_ring_close(&image->reader);
    if (unlinkat(drain->rings_fd, name, 0) == 0 || errno == ENOENT) {
        drop_image(drain, image);
    }
}

void bh_drain_release(struct bh_drain *drain)
{
    struct bh_drain_image *image, *next;

    for (image = drain->images; image != NULL; image = next) {
        uint64_t tail = bh_drain_image_taken(image);

        next = image->next;
        if (image->ended) {
            remove_ring(drain, image);
        } else if (image->reader.fd >= 0 && !image->corrupt && image->released != tail &&
                   bh_ring_release(&image->reader, tail) == BH_OK) {
            image->released = tail;
        }
    }
}
