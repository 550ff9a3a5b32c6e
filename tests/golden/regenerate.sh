#!/bin/sh
# Rewrites the golden files of tests/golden/wire, report and pickle from the present code. Look
# at the difference before you commit it: a changed byte is a changed format.
#   tests/golden/regenerate.sh BUILD_DIRECTORY
set -eu
build=${1:?give the build directory}
for name in test_record test_queue test_journal test_status_file test_spec_file test_frame test_report \
    test_evlog test_viz_memviz
do
    BH_GOLDEN_WRITE=1 "$build/tests/$name" >/dev/null 2>&1 || { echo "$name failed"; exit 1; }
done
git -C "$(dirname "$0")" status --short .
