#!/usr/bin/env bash
# Sourced by the tests in this folder, which run inside cluster.sh, in a scratch folder that looks like
# the clone: jobs are submitted as the documentation says, and what they write stays there.
set -euo pipefail
cd "$SLURM_LAB"
ln -s "$LOCKSTEP_SOURCE_DIR/scripts" "$LOCKSTEP_SOURCE_DIR/inputs" .
mkdir -p build
ln -s "$LOCKSTEP_BINARY_DIR" build/release

# Generated data; an epoch of ten steps.
# shellcheck disable=SC2034  # used by who sources this
small=(--set train.batch_size=60 --set data.synthetic_samples=570 --set data.synthetic_test_samples=130
  --set data.synthetic_image_size=18 --set log.every_steps=2)

fail() {
  echo "FAILED: $*"
  squeue --all || true
  tail -n +1 ./*.log 2>/dev/null || true
  exit 1
}
# expect FILE PATTERN: a line of FILE matches (grep -E).
expect() { grep -qE -- "$2" "$1" || fail "$1 has no line like: $2"; }
# submit ARGUMENTS OF sbatch: prints the job's number.
submit() { sbatch --parsable "$@"; }
state_of() { squeue --noheader --array --format %T --jobs "$1" 2>/dev/null | sort -u | tr '\n' ' '; }
# wait_until SECONDS WHAT COMMAND...
wait_until() {
  local seconds=$1 what=$2 deadline=$((SECONDS + $1))
  shift 2
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || fail "after $seconds s: not yet: $what"
    sleep 0.05
  done
}
is_over() { [ -z "$(state_of "$1")" ]; }
# finish JOB: waits for its end and expects success.
finish() {
  wait_until 240 "the end of job $1" is_over "$1"
  local states
  states=$(scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p' | sort -u)
  [ "$states" = COMPLETED ] || fail "job $1 ended as $states"
}
# summary FOLDER EXPRESSION: a value of its summary.json, as Python prints it.
summary() { python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1/summary.json" "$2"; }
# expect_summary FOLDER EXPRESSION VALUE
expect_summary() {
  local value
  value=$(summary "$1" "$2")
  [ "$value" = "$3" ] || fail "$2 of $1/summary.json is $value, not $3"
}
