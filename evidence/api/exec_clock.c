/* The job whose start is measured: its first act is to read the clock; then it writes that, in ns
 * of CLOCK_MONOTONIC, into the file it is given, through a rename, so that a reader sees all or
 * nothing. */
#include <stdio.h>
#include <time.h>

int main(int argc, char **argv)
{
    struct timespec now;
    char part[4096];
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (argc != 2 || snprintf(part, sizeof part, "%s.part", argv[1]) >= (int)sizeof part)
        return 64;
    FILE *file = fopen(part, "we");
    if (!file || fprintf(file, "%lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec) < 0 ||
        fclose(file) != 0)
        return 1;
    return rename(part, argv[1]) != 0;
}
