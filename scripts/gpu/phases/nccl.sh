#!/usr/bin/env bash
# Two ranks on one device: the claims on process groups and on DistributedDataParallel, with tensors of the device. NCCL
# does not support two ranks on one GPU: that they have different NCCL_HOSTIDs (the test sets them), and from 2.30 on the
# variable below, makes it try.
# shellcheck source-path=SCRIPTDIR
. "$ROOT/scripts/gpu/phases/common.sh"
export NCCL_MULTI_RANK_GPU_ENABLE=1 LOCKSTEP_TEST_DEVICE=$DEVICE

if [ -e "$ROOT/bin/comm.nccl_gpu_test" ] && [ "$DEVICE" = cuda ]; then
  check 'nccl, one rank' ranks 1 12 comm.nccl_gpu_test --gtest_filter='NcclOnGpu.*:AllReduce*'
  tell_counts ''
else
  check 'groups over MPI, two ranks' ranks 2 30 comm.mpi_conformance_test --gtest_filter='AllReduce*:AllGather*'
  tell_counts ''
fi
ddp=parallel.ddp_test
if [ -e "$ROOT/bin/parallel.ddp_nccl_gpu_test" ] && [ "$DEVICE" = cuda ]; then ddp=parallel.ddp_nccl_gpu_test; fi
check 'DistributedDataParallel, two ranks' ranks 2 20 $ddp --gtest_filter='*/Ddp.*:-*ChannelBlocks*'
tell_counts ''
if [ -e "$ROOT/bin/comm.nccl_gpu_test" ] && [ "$DEVICE" = cuda ]; then
  check 'time of a launch, one rank' ranks 1 8 comm.nccl_launch_bench
  # A collective waits until the GPU has run both processes in turn, some milliseconds.
  check 'time of a launch, two ranks' ranks 2 15 comm.nccl_launch_bench 64
  tell_counts ''
  # Features that NCCL does not promise: tests/comm/CMakeLists.txt.
  left_out='Messages.GoRoundInARing*:Chunks.MessagesAreExact:Reductions.SixteenBit*:Reductions.MinAndMax*'
  left_out+=':Mismatch.OfASkippedCallIsRefused:Mismatch.OfASplitOfTheGroupIsRefused:OnDevices.*'
  check 'nccl, two ranks on one GPU' ranks 2 60 comm.nccl_gpu_test --gtest_filter="-$left_out"
  tell_counts ''
fi
finish
