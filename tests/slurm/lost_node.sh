#!/usr/bin/env bash
# A node is set DOWN during training: Slurm requeues the job at once. Its second start takes the run
# folder over from the first, whatever the first is doing, and resumes from the newest checkpoint.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

reads() { grep -q "$1" "lockstep-$job.log" 2>/dev/null; }

job=$(submit --nodes=2 --ntasks-per-node=1 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}" \
  --set train.epochs=400)
wait_until 120 "the third epoch's line" reads "epoch 3/400 .*test accuracy"
lost=$(squeue --noheader --jobs "$job" --format %B)
scontrol update NodeName="$lost" State=DOWN Reason="test"
wait_until 100 "the second start" reads "^resumed from .* at step"
finish "$job"
expect_summary "runs/$job" 's["completed"], s["epochs"], s["steps"]' "(True, 400, 4000)"
[ ! -e "runs/$job/run.lock" ] || fail "the run folder is still held"
