#!/usr/bin/env bash
# scripts/slurm/sweep.sbatch: an array job, one run a value, each in a folder of its own that tells the value; an
# index without a value, and values that would share a folder, end with a sentence.
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

job=$(submit --array=0-1 scripts/slurm/sweep.sbatch inputs/synthetic.toml loss.class_weights '[1, 11]' '[11, 1]' -- \
  "${small[@]}" --set train.epochs=1 --set data.synthetic_classes=2)
finish "$job"
expect "runs/$job/loss.class_weights=_1__11_/deck.toml" 'class_weights = \[1\.0, 11\.0\]'
expect "runs/$job/loss.class_weights=_11__1_/deck.toml" 'class_weights = \[11\.0, 1\.0\]'

for task in 0 1 2; do
  code=0
  SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_JOB_ID=1 bash scripts/slurm/sweep.sbatch inputs/synthetic.toml data.path \
    '"other"' '"a/b"' "'a:b'" >refused.log 2>&1 || code=$?
  [ "$code" = 2 ] || fail "task $task of values that share a folder ended with code $code"
  expect refused.log "^sweep.sbatch: two values have the run folder data.path=a_b: "
done
