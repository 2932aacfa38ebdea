#!/usr/bin/env bash
# Kernels, operations, layers and optimizers on the device against the host, by the suite's own tests.
# shellcheck source-path=SCRIPTDIR
. "$ROOT/scripts/gpu/phases/common.sh"

cases tensor.tensor_test "Devices/DeviceKernels.*/$DEVICE"
if [ "$DEVICE" = cuda ]; then
  cases tensor.tensor_test "OnGpu/*"
fi
cases autograd_test "Floating/EveryOperation.*_$DEVICE:Operations/SecondDerivatives.*_$DEVICE:Devices/DeviceAttention.*/$DEVICE"
cases nn.module_test "Nn/EveryLayer.*_$DEVICE"
cases optim.every_optimizer_test "Optimizers/OptimizerOnDevice.*_$DEVICE"
finish
