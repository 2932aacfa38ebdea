#!/usr/bin/env bash
# compute-sanitizer on kernels of each kind: accesses out of bounds, and races within shared memory of a GPU. Without a
# GPU the same tests by themselves.
# shellcheck source-path=SCRIPTDIR
. "$ROOT/scripts/gpu/phases/common.sh"

# sanitize TOOL SECONDS FILTER
sanitize() {
  local -a tool=()
  if [ "$DEVICE" = cuda ]; then
    tool=(compute-sanitizer --tool "$1" --error-exitcode 9)
  fi
  ours timeout --kill-after=2 "$2" "${tool[@]}" -- tensor.tensor_test --gtest_filter="$3"
}
check memcheck sanitize memcheck 25 "Devices/DeviceKernels.*/$DEVICE"
tell_counts ''
check racecheck sanitize racecheck 15 "Devices/DeviceKernels.SoftmaxAndCumsum*/$DEVICE:Devices/DeviceKernels.Norms*/$DEVICE"
finish
