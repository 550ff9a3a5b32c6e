/* Private to the fake: the parts of the contract that are about the machine, not about processes.
 */
#ifndef BH_PLATFORM_FAKE_HOST_H
#define BH_PLATFORM_FAKE_HOST_H

#include "core/platform/fake.h"

void bh_fake_fill_host(struct bh_platform *platform);

#endif
