/* Systems without an answer to platform.h: everything builds, nothing is launched. */
#if !defined(__linux__)

#include "core/platform/platform.h"

const struct bh_platform *bh_platform_host(void)
{
    return NULL; /* boot.c answers BH_E_UNSUPPORTED before anything else */
}

#endif
typedef int bh_platform_unsupported_not_empty; /* ISO C wants a declaration in every file */
