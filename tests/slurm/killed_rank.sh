#!/usr/bin/env bash
# A rank is killed on one of two nodes: the job script fetches the flight recorders that the ranks
# left there, and they name it.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

export MISBEHAVE="kill 1 7" LOCKSTEP_APP="$LOCKSTEP_BINARY_DIR/tests/apps/misbehave"
verdict="^verdict: rank 1 has not entered all_reduce.*; rank 0 waits there"
for _ in 1 2 3; do  # on a busy machine rank 0 may not have reached that point when the job ends
  job=$(submit --nodes=2 --ntasks-per-node=1 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}")
  wait_until 240 "the end of job $job" is_over "$job"
  "$LOCKSTEP_BINARY_DIR/apps/lockstep" flight "runs/$job" >verdict.txt || fail "no verdict: $(cat verdict.txt)"
  if grep -qE "$verdict" verdict.txt; then break; fi
done
expect verdict.txt "$verdict"
expect_summary "runs/$job" 's["completed"]' "False"
