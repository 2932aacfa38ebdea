#!/usr/bin/env bash
# Remote calls over nodes: all claims of tests/rpc with one and with two ranks per node; then those
# of long tensors repeatedly, beside two busy processes on cores shared by two ranks.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

# claims RANKS_A_NODE OPTION OF GOOGLETEST...
claims() {
  local tasks=$1
  shift
  srun --nodes=2 --ntasks-per-node="$tasks" --cpus-per-task=1 --mpi=pmi2 --kill-on-bad-exit=1 \
    build/release/tests/rpc/rpc.calls_test "$@" >claims.log 2>&1 ||
    fail "with $tasks ranks a node the claims ended with $?"
  tail -n 3 claims.log
  expect claims.log '\[  PASSED  \] [0-9]+ tests?'
}

for tasks in 1 2; do
  claims "$tasks" --gtest_filter='-Idle.AWaitSleepsIfWorkersOutnumberCores'  # said of workers that share a core
done
# A rank that waits for a tensor leaves the core to the sender: before that, one of 13 repetitions
# reached a deadline of 60 s.
for _ in 1 2; do
  while :; do :; done &
done
trap 'kill $(jobs -p)' EXIT
claims 2 --gtest_filter='RpcTensors.OfManyCallsAtOnce*' --gtest_repeat=12 --gtest_break_on_failure
