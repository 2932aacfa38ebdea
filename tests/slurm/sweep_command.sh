#!/usr/bin/env bash
# lockstep sweep in one allocation, two trials at a time in steps of their own, and as the array job that it prints.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

sweep=(build/release/apps/lockstep sweep inputs/synthetic.toml "${small[@]}" --set train.epochs=1
  --grid "optimizer.lr=0.01,0.02,0.04,0.08")

halved=("${sweep[@]}" --ranks-per-trial 2 --parallel 2 --halving steps:2 --eta 2 --output runs/halved)
"${halved[@]}" --script slurm >halved.sbatch
job=$(submit --nodes=2 --ntasks-per-node=2 halved.sbatch)
finish "$job"
expect "lockstep-sweep-$job.log" "^rung 3/3: 1 trial, the whole training"
expect "lockstep-sweep-$job.log" "^best: trial [0-3] with test_loss .*step-"

"${sweep[@]}" --output runs/array --script slurm >array.sbatch
job=$(submit array.sbatch)
finish "$job"
"${sweep[@]}" --output runs/array >table.log 2>&1 || fail "the table: $(cat table.log)"
expect table.log "^4 of 4 trials are done already"
