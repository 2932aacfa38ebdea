# shellcheck shell=bash
# Sourced by the phases, which check.sh starts: how they run programs and say what came of it.
set -euo pipefail
export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin

# The table shows the last note of a phase.
note() { printf '= %s\n' "$*"; }

# CUDA's libraries: the driver's as the machine says, those beside PyTorch, the toolkit's.
cuda_library_path() {
  local toolkit=${CUDA_HOME:-/usr/local/cuda}
  local -a folders
  mapfile -t folders < <("$PYTHON" -c 'import glob, nvidia
for path in nvidia.__path__: print(*sorted(glob.glob(path + "/*/lib")), sep="\n")' 2>/dev/null || true)
  folders+=("$toolkit/lib64")
  # A build with CUDA starts only with a driver. For simulated devices the toolkit's stub is enough.
  if [ "$DEVICE" = sim ] && [ -e "$toolkit/lib64/stubs/libcuda.so" ]; then
    mkdir -p "$SCRATCH/stub"
    ln -sf "$toolkit/lib64/stubs/libcuda.so" "$SCRATCH/stub/libcuda.so.1"
    folders+=("$SCRATCH/stub")
  fi
  printf '%s' "${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}"
  (IFS=:; printf '%s' "${folders[*]}")
}
LIBRARIES=$ROOT/lib:$(cuda_library_path)

# ours [TOOL...] -- PROGRAM [ARGUMENT...]: with the bundle's libraries, hidden from the machine's
# other programs.
ours() {
  local -a tool=()
  while [ "$1" != -- ]; do tool+=("$1"); shift; done
  local program=$2
  shift 2
  env LD_LIBRARY_PATH="$LIBRARIES" "${tool[@]}" "$ROOT/bin/$program" "$@"
}

# ranks N SECONDS PROGRAM [ARGUMENT...]: on N ranks of this machine, which need no network.
ranks() {
  local n=$1 limit=$2 program=$3
  shift 3
  UCX_TLS=self,sm,tcp UCX_NET_DEVICES=lo ours timeout --kill-after=2 "$limit" -- mpiexec -launcher fork -iface lo \
    -hosts localhost -n "$n" "$ROOT/bin/$program" "$@"
}

PASSED=0 FAILED=0 REFUSED=0
# tell_counts MORE
tell_counts() { note "$PASSED passed, $FAILED failed, $REFUSED refused by a GPU${1:+, $1}"; }

# check WHAT COMMAND...: counts it as passed or failed.
check() {
  local what=$1 code=0
  shift
  printf '\n--- %s\n' "$what"
  "$@" || code=$?
  if [ "$code" -eq 0 ]; then PASSED=$((PASSED + 1)); else FAILED=$((FAILED + 1)); fi
  printf -- '--- %s: exit code %d after %d s\n' "$what" "$code" "$SECONDS"
}

# cases PROGRAM FILTER: the cases of a GoogleTest program in several processes at once, then each
# failed one in a process of its own, because a fault of a GPU spoils all later cases of its
# process.
cases() {
  local program=$1 filter=$2 work shards shard left name
  work=$(mktemp -d "$SCRATCH/cases.XXXXXX")
  shards=$(($(nproc) < 8 ? $(nproc) : 8))
  printf '\n--- %s %s\n' "$program" "$filter"
  ours -- "$program" --gtest_filter="$filter" --gtest_list_tests |
    awk '/^[^ ].*\.( |$)/ {suite = $1} /^  / {print suite $1}' | sort >"$work/all"
  if [ ! -s "$work/all" ]; then
    echo "$program has no case $filter"
    FAILED=$((FAILED + 1))
    return
  fi
  for ((shard = 0; shard < shards; ++shard)); do
    { GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard ours -- "$program" --gtest_filter="$filter" \
      >"$work/$shard.log" 2>&1 || echo $? >"$work/$shard.code"; } &
  done
  wait
  sed -n 's/^\[       OK \] \([^ ,]*\).*/\1/p' "$work"/*.log | sort >"$work/passed"
  comm -23 "$work/all" "$work/passed" >"$work/left"
  PASSED=$((PASSED + $(wc -l <"$work/passed")))
  for shard in "$work"/*.code; do
    # 1: cases failed, or a process was given none.
    if [ ! -e "$shard" ] || [ "$(cat "$shard")" = 1 ]; then continue; fi
    echo "a process ended with code $(cat "$shard"):"
    tail -n 5 "${shard%.code}.log"
    if grep -q '^\[==========\] .* ran\.' "${shard%.code}.log"; then
      echo 'FAILED: at its end, when every case had run'
      FAILED=$((FAILED + 1))
    fi
  done
  grep -h '^refused: ' "$work"/*.log | sort | uniq -c >"$work/refused" || true
  REFUSED=$((REFUSED + $(awk '{n += $1} END {print n + 0}' "$work/refused")))
  cat "$work/refused"
  left=$(wc -l <"$work/left")
  tell_counts "of $program $left still to be run alone"
  while read -r name; do
    if timeout --kill-after=2 20 env LD_LIBRARY_PATH="$LIBRARIES" "$ROOT/bin/$program" --gtest_filter="$name" \
      >"$work/alone" 2>&1 </dev/null; then
      PASSED=$((PASSED + 1))
      echo "passed alone: $name"
    else
      FAILED=$((FAILED + 1))
      echo "FAILED: $name"
      grep -vE '^(Note|\[(==|--|  PASSED| RUN))' "$work/alone" | head -n 25
    fi
    tell_counts ''
  done <"$work/left"
}

# The last command of a phase.
finish() {
  tell_counts ''
  [ "$FAILED" -eq 0 ]
}
