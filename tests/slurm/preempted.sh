#!/usr/bin/env bash
# A job of a partition with higher priority takes the nodes. Slurm gives the training its grace time
# (SIGTERM); it saves, is requeued, and resumes when the nodes are free again.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

reads() { grep -q "$1" "lockstep-$job.log" 2>/dev/null; }

# Checkpoints only after a stop and at the end: the resumed one was saved because of the preemption.
job=$(submit --nodes=2 --ntasks-per-node=1 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}" \
  --set train.epochs=400 --set checkpoint.every_epochs=400)
wait_until 120 "the first epoch's line" reads "epoch 1/400 .*test accuracy"
urgent=$(submit --partition=urgent --nodes=2 --exclusive --output=urgent.log --wrap "date; sleep 2")
wait_until 60 "the urgent job's start" test -s urgent.log
[ "$(state_of "$job")" != "RUNNING " ] || fail "the training still runs"
wait_until 60 "the urgent job's end" is_over "$urgent"
wait_until 100 "the second start" reads "^resumed from .* at step"
finish "$job"
expect_summary "runs/$job" 's["completed"], s["epochs"], s["steps"]' "(True, 400, 4000)"
[ ! -e "runs/$job/run.lock" ] || fail "the run folder is still held"
