/* systemd readiness without its library: one datagram to $NOTIFY_SOCKET. */
#ifndef BH_SERVER_NOTIFY_H
#define BH_SERVER_NOTIFY_H

/* "READY=1", "STOPPING=1". Without NOTIFY_SOCKET nothing happens; failures are nobody's. */
void bh_notify(const char *state);

#endif
