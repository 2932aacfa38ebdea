#!/usr/bin/env bash
# benchmarks/run.sh and benchmarks/suite.py: every program belongs to the suite, a figure that moved is
# found and scatter is not, results of unlike machines are refused, and a program that fails is named.
set -euo pipefail
fail() {
  echo "FAILED: $*"
  exit 1
}
suite=$LOCKSTEP_SOURCE_DIR/benchmarks/suite.py
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$LOCKSTEP_SOURCE_DIR"

# expect CODE PATTERN COMMAND...: exit code, and a line of the output.
expect() {
  local code=$1 pattern=$2 got=0
  shift 2
  "$@" >"$scratch/out" 2>&1 || got=$?
  [ "$got" = "$code" ] || { cat "$scratch/out"; fail "exit code $got instead of $code: $*"; }
  grep -qE -- "$pattern" "$scratch/out" || { cat "$scratch/out"; fail "no line matches '$pattern': $*"; }
}

# Every benchmark program is in the suite or named with a reason.
diff <(sed -n 's|^ *lockstep_add_benchmark(NAME \([a-z0-9_.]*\).*|\1|p; s|^add_executable(\(.*\)_bench .*|\1|p' benchmarks/*/CMakeLists.txt | sort -u) \
  <(python3 "$suite" --list | awk '{print $1}' | sort -u) || fail "the suite's programs are not those that are built"

# results FILE SAMPLES_A SAMPLES_B [CORES]: a file of results with two figures.
results() {
  cat >"$scratch/$1" <<END
{"format": 1, "commit": "$1", "date": "2026-11-27", "host": "h", "kernel": "k", "ranks": 2, "seconds_each": 0.05,
 "machine": {"processor": "P", "vectors": "avx2", "cores": ${4:-2}}, "unit": "us", "failed": {},
 "samples": {"p/a": [$2], "p/b": [$3]}}
END
}
results old "10, 11, 12, 10, 11" "100, 110, 120, 100, 110"
results same "12, 10, 11, 11, 10" "121, 105, 99, 111, 108"
results slower "13, 14, 15, 13, 14" "100, 110, 120, 100, 110"
results faster "10, 11, 12, 10, 11" "50, 55, 60, 50, 55"
results little "12.01, 12.02, 12.03" "100, 110, 120"
results old_narrow "11.99, 11.98, 11.97" "100, 110, 120"
results larger "10, 11, 12" "100, 110, 120" 64
compared() { python3 "$suite" --compare "$scratch/$1" "$scratch/$2" "${@:3}"; }
expect 0 '^2 figures compared: 0 slower, 0 faster, 2 within' compared old same
expect 0 '^2 figures compared: 1 slower, 0 faster, 1 within' compared old slower
grep -qE '^p/a +11 +14 +1\.273  18 %, 14 %$' "$scratch/out" || { cat "$scratch/out"; fail "the slower figure's line"; }
expect 1 '^2 figures compared: 1 slower' compared old slower --fail-if-slower
expect 0 '^2 figures compared: 0 slower, 1 faster' compared old faster --fail-if-slower
expect 0 '^2 figures compared: 0 slower, 0 faster' compared old_narrow little # apart, but by less than 3 %
expect 2 "cannot be compared: their machine differs .*'cores': 64" compared old larger
echo '{"format": 1, "commit"' >"$scratch/cut"
expect 2 'cut is not a file of this suite' compared old cut
expect 2 'missing is not a file of this suite.s results: .*No such file' compared old missing

# Wrong arguments, a commit that is none, and a program that fails.
expect 2 "No program matches 'tapes'\. The programs: tensor\.kernels, " python3 "$suite" --only tapes
expect 2 "'\(' is not a regular expression" python3 "$suite" --only '('
expect 2 'have to be positive' python3 "$suite" --rounds 0
mkdir -p "$scratch/source/build/release/benchmarks/autograd"
printf '#!/bin/sh\necho "no memory" >&2\nexit 3\n' >"$scratch/source/build/release/benchmarks/autograd/autograd.tape_bench"
chmod +x "$scratch/source/build/release/benchmarks/autograd/autograd.tape_bench"
touch "$scratch/source/build/release/CMakeCache.txt"
cd "$scratch/source"
expect 1 '^autograd\.tape failed: exit code 3: no memory\.$' \
  python3 "$suite" --only '^autograd.(tape|operations)$' --rounds 2 --launch 'env -S sh -c "shift; exec \"$@\"" sh' --output "$scratch/failed.json"
grep -q '^autograd\.operations failed: this build does not have it\.$' "$scratch/out" || { cat "$scratch/out"; fail "a missing program is named"; }

# A real program, three rounds, kept and held against itself.
cd "$LOCKSTEP_SOURCE_DIR"
[ "$LOCKSTEP_BINARY_DIR" = "$LOCKSTEP_SOURCE_DIR/build/release" ] || exit 0 # the suite measures the release build
expect 0 'autograd\.tape +[1-9][0-9]* figures, spread' \
  python3 "$suite" --only '^autograd.tape$' --seconds-each 0.005 --output "$scratch/kept.json"
expect 0 '^[1-9][0-9]* figures compared: ' \
  python3 "$suite" --only '^autograd.tape$' --seconds-each 0.005 --output "$scratch/new.json" --against "$scratch/kept.json"
expect 0 'autograd\.tape +[1-9][0-9]* figures, one sample of each$' \
  python3 "$suite" --only '^autograd.tape$' --seconds-each 0.005 --rounds 1 --output "$scratch/one.json"
expect 2 'overwrite' python3 "$suite" --only '^autograd.tape$' --output "$scratch/kept.json" --against "$scratch/kept.json"
