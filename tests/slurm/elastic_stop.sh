#!/usr/bin/env bash
# `scancel --signal=X --batch`, as --signal=B:X@120 does before the time limit, and a plain `scancel`: the supervisor in a
# job of two nodes has the ranks save and ends with 75, whichever launcher it uses. SIGTERM to srun itself would kill them.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

export MISBEHAVE_PACE=20
rows() { [ -e "$run/metrics.jsonl" ] && [ "$(wc -l <"$run/metrics.jsonl")" -gt 2 ]; }

for launcher in srun mpiexec; do
  for signal in USR1 TERM INT; do
    run=runs/$launcher-$signal
    # Checkpoints only after a stop.
    job=$(submit --nodes=2 --ntasks-per-node=1 --no-kill --output="$launcher-$signal.log" \
      --wrap "exec build/release/apps/lockstep elastic --launcher $launcher --min 2 --max 2 -- \
      build/release/tests/apps/misbehave inputs/synthetic.toml ${small[*]} --set 'run.dir=\"$run\"' \
      --set train.epochs=4000 --set checkpoint.every_epochs=4000 --set comm.timeout=30")
    wait_until 120 "a step of $run" rows
    scancel --signal=$signal --batch "$job"
    wait_until 60 "the end of job $job" is_over "$job"
    expect "$launcher-$signal.log" "^lockstep elastic: stopped on request; continue with --resume"
    code=$(scontrol show job "$job" | sed -n 's/.*ExitCode=\([0-9]*\):.*/\1/p')
    [ "$code" = 75 ] || fail "with $launcher and SIG$signal the supervisor ended with $code, not 75"
    expect_summary "$run" 's["completed"], s["stopped_early"]' "(False, True)"
    [ "$(find "$run/checkpoints" -name 'step-*' | wc -l)" = 1 ] || fail "$run has saved nothing: $(ls "$run/checkpoints")"
    [ ! -e "$run/run.lock" ] || fail "$run is still held"
  done
done
