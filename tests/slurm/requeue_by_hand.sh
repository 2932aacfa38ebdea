#!/usr/bin/env bash
# `scontrol requeue` of a running job: SIGTERM to every rank. They save in the seconds that Slurm
# leaves them, and the second start resumes from there. After a complete run the third start does
# nothing.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

reads() { grep -q "$1" "lockstep-$job.log" 2>/dev/null; }

# Checkpoints only after a stop and at the end: the resumed one was saved because of the signal.
job=$(submit --nodes=2 --ntasks-per-node=1 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}" \
  --set train.epochs=400 --set checkpoint.every_epochs=400)
wait_until 120 "the first epoch's line" reads "epoch 1/400 .*test accuracy"
scontrol requeue "$job"
wait_until 100 "the second start" reads "^resumed from .* at step"
finish "$job"
expect_summary "runs/$job" 's["completed"], s["epochs"], s["steps"]' "(True, 400, 4000)"
[ ! -e "runs/$job/run.lock" ] || fail "the run folder is still held"

before=$(cat "runs/$job"/{metrics.jsonl,summary.json} | sha256sum)
scontrol requeue "$job"
wait_until 100 "the third start" reads "train.sbatch: the run in runs/$job is complete: nothing to do"
finish "$job"
[ "$before" = "$(cat "runs/$job"/{metrics.jsonl,summary.json} | sha256sum)" ] || fail "the third start has changed something"
