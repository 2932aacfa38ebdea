#!/usr/bin/env bash
# What Slurm does 120 s before the walltime, done by hand: USR1 to the batch script. The ranks of two
# nodes agree on a step and save, the script requeues the job, and the second start resumes and ends well,
# in a folder that is named as TOML allows it: by the last of two, with single quotes and blanks.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

reads() { grep -q "$1" "lockstep-$job.log" 2>/dev/null; }

job=$(submit --nodes=2 --ntasks-per-node=1 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}" --set train.epochs=100 \
  --set 'run.dir="runs/another"' --set "run.dir = 'runs/by name'")
wait_until 120 "the first epoch's line" reads "epoch 1/100 .*test accuracy"
scancel --batch --signal=USR1 "$job"
wait_until 120 "the requeue" reads "train.sbatch: stopped before walltime"
wait_until 100 "the second start" reads "^resumed from .* at step"
finish "$job"
expect_summary "runs/by name" 's["completed"], s["ranks"], s["epochs"], s["steps"]' "(True, 2, 100, 1000)"
