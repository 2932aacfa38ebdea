#!/usr/bin/env bash
# What the machine has, and whether the programs start on it.
# shellcheck source-path=SCRIPTDIR
. "$ROOT/scripts/gpu/phases/common.sh"

uname -a
cat "$ROOT/BUILT"
lscpu | grep -E '^(Model name|CPU\(s\))' || true
if [ "$DEVICE" = cuda ]; then
  check 'nvidia-smi' nvidia-smi
  nvcc --version | tail -n 2 || true
  "$PYTHON" -c 'import importlib.metadata; print("torch", importlib.metadata.version("torch"))' || true
fi
echo "library path: $LIBRARIES"

# Fails for a program that lacks libraries, and names them.
expect_libraries() { ! ours ldd -- "$1" | grep 'not found'; }
for program in "$ROOT"/bin/*; do
  check "libraries of $(basename "$program")" expect_libraries "$(basename "$program")"
done
check 'two ranks' ranks 2 8 mpi_smoke
sees_device() { ours -- tensor.tensor_test --gtest_list_tests --gtest_filter="Devices/DeviceKernels.*/$DEVICE" | grep "/$DEVICE"; }
check "the tests see $DEVICE" sees_device
tell_counts "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo 'no GPU')"
[ "$FAILED" -eq 0 ]
