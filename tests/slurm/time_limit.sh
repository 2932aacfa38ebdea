#!/usr/bin/env bash
# The application asks Slurm for its time limit, of a minute, and stops 40 s before it, without a
# signal; the job requeues itself and resumes. A file `stop` in the run folder ends that start,
# which is not requeued.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

reads() { grep -q "$1" "lockstep-$job.log" 2>/dev/null; }

job=$(submit --time=1 --signal=B:USR1@1 --nodes=2 --ntasks-per-node=1 scripts/slurm/train.sbatch inputs/synthetic.toml \
  "${small[@]}" --set train.epochs=1000000 --set log.every_steps=100000 --set checkpoint.every_epochs=0 \
  --set run.stop_before_limit_s=40)
wait_until 60 "the stop before the time limit" reads "train.sbatch: stopped before walltime"
expect "lockstep-$job.log" "^stopped on request \(time limit of the job\) at step"
expect_summary "runs/$job" 's["completed"], s["stopped_by"]' "(False, 'time limit of the job')"
wait_until 100 "the second start" reads "^resumed from .* at step"
touch "runs/$job/stop"
wait_until 60 "the stop by a file" reads "train.sbatch: stopped by the file runs/$job/stop"
wait_until 60 "the end of the job" is_over "$job"
expect_summary "runs/$job" 's["stopped_by"]' "file stop"
[ ! -e "runs/$job/stop" ] || fail "the file stop is still there"
[ ! -e "runs/$job/run.lock" ] || fail "the run folder is still held"
