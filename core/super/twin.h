/* Two processes for one duty: one works, the other waits and goes on in its place when it dies. A
 * helper forked by the decider later would land on it as a child, so each helper brings its own
 * successor, which makes a new one as its first act.
 *
 *     struct bh_twin twin = BH_TWIN_NONE;
 *     begin:
 *     if (bh_twin_start(&twin) == 1)
 *         goto begin;                       the one before died
 *     work; now and then: if (bh_twin_check(&twin) == 1) goto begin;
 *     bh_twin_release(&twin);               done: the waiting one ends as well
 *
 * The waiting process holds every descriptor and map that was open at the fork. Single-threaded. */
#ifndef BH_SUPER_TWIN_H
#define BH_SUPER_TWIN_H

struct bh_twin {
    int pid; /* of the waiting process, 0 none */
    int fd;  /* write end: it goes on when this closes without a byte */
};

#define BH_TWIN_NONE ((struct bh_twin){.fd = -1})

/* Forks the waiting process. 1: this is it, and the one before has died: begin anew. 0: go on; a
 * failed fork only means that nobody waits for now. Does not return in one that was released. */
int bh_twin_start(struct bh_twin *twin);
/* Makes a new one if it died; else as bh_twin_start. One system call when it lives. */
int bh_twin_check(struct bh_twin *twin);
/* Ends it and waits for that. */
void bh_twin_release(struct bh_twin *twin);

/* For a duty that sleeps until it is asked: waits until fd can be read or has ended (0), or for
 * timeout_ms (0; -1 = for ever), and replaces a waiting process that died meanwhile at once. 1 as
 * above. The first call makes the first one. SIGCHLD is this call's from then on. */
int bh_twin_wait(struct bh_twin *twin, int fd, int timeout_ms);

#endif
