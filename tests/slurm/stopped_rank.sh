#!/usr/bin/env bash
# A rank is stopped on one of four nodes of two tasks, in a collective and while a group is made: at
# the deadline the job names the rank and its node, and ends.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

export LOCKSTEP_APP="$LOCKSTEP_BINARY_DIR/tests/apps/misbehave"
# stopped ORDER PATTERN: the job with that fault gives this verdict.
stopped() {
  export MISBEHAVE=$1
  local job
  job=$(submit --nodes=4 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}" --set comm.timeout=15)
  wait_until 240 "the end of job $job" is_over "$job"
  expect "runs/$job/flight/verdict.txt" "$2"
  expect "lockstep-$job.log" "$2"
  expect_summary "runs/$job" 's["completed"]' False
}
stopped "stop 5 7" "^(misbehave: )?rank 5 has not entered all_reduce.*; ranks 0-4, 6-7 wait there.*; its process [0-9]+ on node node3 is stopped"
stopped "group 5 7" "rank 5's last operation was .*; its process [0-9]+ on node node3 is stopped"
