#!/usr/bin/env bash
# A rank is killed on one of two nodes: the job script fetches the flight recorders that the ranks left
# there, and they name it.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

export MISBEHAVE="kill 1 7" LOCKSTEP_APP="$LOCKSTEP_BINARY_DIR/tests/apps/misbehave"
job=$(submit --nodes=2 --ntasks-per-node=1 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}")
wait_until 240 "the end of job $job" is_over "$job"
"$LOCKSTEP_BINARY_DIR/apps/lockstep" flight "runs/$job" >verdict.txt || fail "no verdict: $(cat verdict.txt)"
expect verdict.txt "^verdict: rank 1 has not entered all_reduce.*; rank 0 waits there"
expect_summary "runs/$job" 's["completed"]' "False"
