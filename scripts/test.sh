#!/usr/bin/env bash
# scripts/test.sh [CTEST ARGUMENT...]
#
# Installs what is missing, builds everything and runs every test; arguments go to ctest:
#   scripts/test.sh -R checkpoint --repeat until-fail:5
#   JOBS  parallel compilations (default: the cores of this process); of tests twice as many, since half of
#         their time they wait, and one more: Slurm's, one after the other, hardly compute
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${JOBS:-$(nproc)}
scripts/setup.sh release build data test
cmake --build --preset release --parallel "$jobs"
exec ctest --preset release --parallel $((2 * jobs + 1)) "$@"
