#!/usr/bin/env bash
# scripts/test.sh [CTEST ARGUMENT...]
#
# Installs what is missing, builds everything and runs every test; arguments go to ctest:
#   scripts/test.sh -R checkpoint --repeat until-fail:5
#   JOBS  parallel compilations, and cores that concurrent tests may fill (default: all of this process)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${JOBS:-$(nproc)}
scripts/setup.sh release build data test
cmake --build --preset release --parallel "$jobs"
exec ctest --preset release --parallel "$jobs" "$@"
