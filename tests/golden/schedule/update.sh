#!/bin/sh
# Rewrites the golden schedules from the present code: look at the difference before committing it.
# Usage: tests/golden/schedule/update.sh BUILD_DIRECTORY
set -eu
BH_GOLDEN_UPDATE=1 "${1:?usage: update.sh BUILD_DIRECTORY}/tests/test_schedule"
