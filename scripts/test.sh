#!/usr/bin/env bash
# scripts/test.sh [CTEST ARGUMENT...]
#
# Installs missing packages, builds everything and runs every test. Arguments are passed to ctest:
#   scripts/test.sh -R checkpoint --repeat until-fail:5
#   JOBS  parallel compilations (default: the cores of this process). 2 JOBS + 1 tests run in parallel: tests wait
#         half of their time, and Slurm's tests, which run one after another, hardly compute
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${JOBS:-$(nproc)}
scripts/setup.sh release build data test
cmake --build --preset release --parallel "$jobs"
exec ctest --preset release --parallel $((2 * jobs + 1)) "$@"
