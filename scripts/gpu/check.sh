#!/usr/bin/env bash
# scripts/gpu/check.sh DEVICE OUT [PHASE...]
#
# Runs the contents of the folder of scripts/gpu/bundle.sh, on a machine with nothing else but CUDA
# and a Python with PyTorch. Each phase runs in a process group of its own that ends when its time
# is over, so a hanging phase does not affect the others. DEVICE is cuda, or sim: simulated devices,
# where only the script is tried, and the last two phases are left out unless they are named. OUT, a
# new folder or an empty one, gets PHASE.log and table.txt, rewritten after each phase. The exit
# code is 1 if a phase failed. docs/guide/check_a_gpu.md says what each phase proves.
#   PYTHON         the Python that has PyTorch (default: python3)
#   LIMIT_PERCENT  of each phase's time limit (default: 100): more on a slow or busy machine
set -euo pipefail
usage='usage: scripts/gpu/check.sh cuda|sim OUT [PHASE...]'
DEVICE=${1:?$usage} OUT=${2:?$usage}
shift 2
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
declare -A seconds_of=([environment]=15 [kernels]=60 [training]=60 [nccl]=120 [sanitizer]=45 [ours]=110 [pytorch]=150)
case $DEVICE in
  cuda) phases=(environment kernels training nccl sanitizer ours pytorch) ;;
  sim) phases=(environment kernels training nccl sanitizer) ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
[ $# -eq 0 ] || phases=("$@")
for phase in "${phases[@]}"; do
  [[ -v seconds_of[$phase] ]] || { echo "check: there is no phase $phase" >&2; exit 2; }
done
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
[ -z "$(ls -A "$OUT")" ] || { echo "check: $OUT is not empty" >&2; exit 2; }

SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
export ROOT OUT DEVICE SCRATCH PYTHON=${PYTHON:-python3}
export LOCKSTEP_SOURCE_DIR=$ROOT LOCKSTEP_BINARY_DIR=$ROOT OMP_WAIT_POLICY=passive OPENBLAS_NUM_THREADS=1

# Kills the rest of a phase.
kill_session() {
  local stat line session_of_process
  for stat in /proc/[0-9]*/stat; do
    line=$(cat "$stat" 2>/dev/null) || continue
    # PID (NAME) STATE PARENT GROUP SESSION ...
    read -r _ _ _ session_of_process _ <<<"${line##*) }"
    [ "$session_of_process" != "$1" ] || kill -KILL "${line%% *}" 2>/dev/null || true
  done
}

rows=() failures=0
# One line per phase: how it ended, its duration, and its last note.
write_table() {
  {
    cat "$ROOT/BUILT"
    printf '%-12s %-12s %8s %6s  %s\n' phase result seconds limit 'what it says'
    printf '%s\n' "${rows[@]}"
    "$ROOT/scripts/gpu/phases/ratios.sh" "$OUT"
  } >"$OUT/table.txt"
}
for phase in "${phases[@]}"; do
  limit=$((seconds_of[$phase] * ${LIMIT_PERCENT:-100} / 100))
  begin=$SECONDS
  setsid timeout --kill-after=2 "$limit" bash "$ROOT/scripts/gpu/phases/$phase.sh" >"$OUT/$phase.log" 2>&1 </dev/null &
  session=$! code=0
  wait "$session" || code=$?
  kill_session "$session"
  case $code in
    0) result=passed ;;
    124 | 137) result='out of time' ;;
    *) result=failed ;;
  esac
  [ "$code" -eq 0 ] || failures=$((failures + 1))
  rows+=("$(printf '%-12s %-12s %8d %6d  %s' "$phase" "$result" $((SECONDS - begin)) "$limit" \
    "$(sed -n 's/^= //p' "$OUT/$phase.log" | tail -n 1)")")
  printf '%s\n' "${rows[-1]}"
  write_table
done
printf '\n'
cat "$OUT/table.txt"
[ "$failures" -eq 0 ]
