#!/usr/bin/env bash
# scripts/slurm/train.sbatch on 4 nodes x 2 tasks: all ranks train one model, and the output of a job can
# be read while it runs.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

job=$(submit --nodes=4 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}" --set train.epochs=2)
finish "$job"
expect "lockstep-$job.log" "on 8 ranks, 1 thread each, node1 node2 node3 node4; run folder runs/$job"
expect_summary "runs/$job" 's["completed"], s["ranks"], s["epochs"], s["steps"]' "(True, 8, 2, 20)"
expect_summary "runs/$job" 's["hosts"]' "['node1', 'node2', 'node3', 'node4']"

reads() { grep -qs "$1" "lockstep-$job.log"; }
job=$(submit --nodes=4 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}" --set train.epochs=100000)
wait_until 120 "the first epoch's line" reads "^epoch 1/100000 .*test accuracy"
[ "$(state_of "$job")" = "RUNNING " ] || fail "job $job does not run any more"
scancel "$job"
wait_until 120 "the end of job $job" is_over "$job"
expect_summary "runs/$job" 's["completed"]' False
