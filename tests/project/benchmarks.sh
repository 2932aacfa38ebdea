#!/usr/bin/env bash
# Each source of a benchmark is built, and each benchmark that a page or a script names is one.
# Argument: a source tree other than this one (project.source_checks_can_fail).
set -euo pipefail
cd "${1:-$LOCKSTEP_SOURCE_DIR}"
failures=0
fail() {
  echo "$*" >&2
  failures=$((failures + 1))
}

sources=0
while IFS= read -r -d '' source; do
  sources=$((sources + 1))
  list=${source%/*}/CMakeLists.txt
  grep -qsE "[ (]${source##*/}([ )]|$)" "$list" || fail "$source is not in $list"
done < <(find benchmarks -name '*.cpp' -print0)

built=$(find benchmarks -name CMakeLists.txt -exec \
  sed -nE 's/^lockstep_add_benchmark\(NAME ([^ ]+).*/\1_bench/p; s/^add_executable\(([a-z0-9_.]+_bench) .*/\1/p' {} +)
names=0
while IFS=: read -r file name; do
  names=$((names + 1))
  grep -qxF "$name" <<<"$built" || fail "$file: no benchmark is called $name"
done < <(grep -roE --include='*.md' --include='*.sh' '\b[a-z]+\.[a-z0-9_]+_bench\b' benchmarks docs README.md CONTRIBUTING.md |
  sort -u)
echo "$sources sources, $names names, $failures wrong"
((failures == 0 && sources > 0))
