/* Memory of one kind for load.c: anon thp shared memfd sysv hugetlb tables private-file, and
 * handed: anonymous memory of a child that sleeps all the while, written from outside. Any process
 * and thread; a failure prints its reason and ends the process with 99. Units: bytes. */
#ifndef LOAD_MEMORY_H
#define LOAD_MEMORY_H

#define LOAD_PAGE 4096ul

_Noreturn void load_fail(const char *what);

/* Address room for bytes of the kind, nothing of it touched; NULL for 0 bytes. For `tables` the
 * room is 512 times as large: each 2 MiB of it cost one page table when something there is read. */
char *load_reserve(const char *kind, unsigned long bytes);
/* Makes bytes from..to of it real. */
void load_touch(const char *kind, char *at, unsigned long from, unsigned long to);

#endif
