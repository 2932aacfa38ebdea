#!/usr/bin/env bash
# scripts/slurm/sweep.sbatch: an array job, one run a value, each in a folder that tells the value; an
# index without a value ends with a sentence.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

job=$(submit --array=0-2 scripts/slurm/sweep.sbatch inputs/synthetic.toml optimizer.lr 0.01 0.02 0.04 -- \
  "${small[@]}" --set train.epochs=1)
finish "$job"
for value in 0.01 0.02 0.04; do
  expect_summary "runs/$job/optimizer.lr=$value" 's["completed"], s["ranks"]' "(True, 2)"
  expect "runs/$job/optimizer.lr=$value/deck.toml" "lr = $value"
done

job=$(submit --array=3 scripts/slurm/sweep.sbatch inputs/synthetic.toml optimizer.lr 0.01 0.02 0.04)
wait_until 240 "the end of job $job" is_over "$job"
expect "lockstep-${job}_3.log" "sweep.sbatch: --array=3 has no value: the last of 3 is number 2"
