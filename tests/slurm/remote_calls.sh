#!/usr/bin/env bash
# Remote calls over nodes: all claims of tests/rpc with one and with two ranks a node.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

for tasks in 1 2; do
  # But for what is said of workers that share a core.
  srun --nodes=2 --ntasks-per-node="$tasks" --cpus-per-task=1 --mpi=pmi2 --kill-on-bad-exit=1 \
    build/release/tests/rpc/rpc.calls_test --gtest_filter='-Idle.WhereWorkersAreMoreThanCores*' >claims.log 2>&1 ||
    fail "with $tasks ranks a node the claims ended with $?"
  tail -n 3 claims.log
  expect claims.log '\[  PASSED  \] [0-9]+ tests'
done
