#!/usr/bin/env bash
# A requeued job starts on one node instead of two: with train.reduction = "invariant" it ends with
# the bits of an undisturbed run.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

reads() { grep -q "$1" "lockstep-$job.log" 2>/dev/null; }
long=("${small[@]}" --set train.epochs=100 --set checkpoint.every_epochs=100 --set 'train.reduction="invariant"')

job=$(submit --nodes=2 --ntasks-per-node=1 scripts/slurm/train.sbatch inputs/synthetic.toml "${long[@]}")
wait_until 120 "the first epoch's line" reads "epoch 1/100 .*test accuracy"
scontrol requeuehold "$job"
wait_until 60 "the job's return into the queue" test "$(state_of "$job")" != "RUNNING "
wait_until 60 "the save" reads "stopped on request"
scontrol update JobId="$job" NumNodes=1 NumTasks=1
scontrol release "$job"
wait_until 100 "the second start" reads "^resumed from .* at step"
finish "$job"
expect_summary "runs/$job" 's["completed"], len(s["hosts"]), s["steps"]' "(True, 1, 1000)"

whole=$(submit --nodes=2 --ntasks-per-node=1 scripts/slurm/train.sbatch inputs/synthetic.toml "${long[@]}")
finish "$whole"
for what in test_loss train_loss test_accuracy; do
  expect_summary "runs/$job" "s['$what']" "$(summary "runs/$whole" "s['$what']")"
done
last=checkpoints/step-00001000.h5
code=0
build/release/apps/lockstep checkpoint diff "runs/$job/$last" "runs/$whole/$last" >diff.txt || code=$?
[ "$code" -le 1 ] || fail "the last checkpoints cannot be compared: $(cat diff.txt)"
if grep -E '^ */(model|optimizer)/' diff.txt; then fail "other bits"; fi
