#!/usr/bin/env bash
# KERNELS of the layers and of the tests (one path a line in $LOCKSTEP_BINARY_DIR/kernels.txt, written at configuration)
# are those sources that include Kokkos, directly or by a header: with CUDA nvcc compiles them, and the host compiler, which
# does not take a Kokkos with CUDA, all others. None of them includes fmt, which nvcc does not take.
# Arguments: another list, and the tree that it is of (project.source_checks_can_fail).
set -euo pipefail
list=${1:-$LOCKSTEP_BINARY_DIR/kernels.txt}
root=${2:-$LOCKSTEP_SOURCE_DIR}
cd "$root"

folders=()
for folder in src tests benchmarks apps docs; do
  if [ -d "$folder" ]; then folders+=("$folder"); fi
done
# A project of its own, against the installed package, is compiled by its own compiler.
mapfile -t files < <(find "${folders[@]}" -type f \( -name '*.hpp' -o -name '*.cpp' \) -not -path 'tests/project/*' | sort)

# readers NAME: the files that include <NAME...>, directly or by others, each with what brings it.
readers() {
  awk -v wanted="$1" '
    FNR == NR { is_file[$0] = 1; next }
    {
      name = $0
      sub(/^[ \t]*#[ \t]*include[ \t]*[<"]/, "", name)
      if (name == $0) next
      sub(/[>"].*/, "", name)
      folder = FILENAME
      sub(/[^\/]*$/, "", folder)
      if (index(name, wanted) == 1) {
        if (!(FILENAME in by)) by[FILENAME] = name
      } else if (("src/" name) in is_file) includes[FILENAME, "src/" name] = 1
      else if (("tests/" name) in is_file) includes[FILENAME, "tests/" name] = 1
      else if ((folder name) in is_file) includes[FILENAME, folder name] = 1
    }
    END {
      do {
        found = 0
        for (pair in includes) {
          split(pair, at, SUBSEP)
          if (at[2] in by && !(at[1] in by)) { by[at[1]] = at[2]; found = 1 }
        }
      } while (found)
      for (file in by) print file, by[file]
    }' <(printf '%s\n' "${files[@]}") "${files[@]}" </dev/null | sort
}

failures=0
fail() {
  echo "$1"
  failures=$((failures + 1))
}
declare -A listed=() includes_kokkos=()
while read -r file; do
  listed[${file#"$root"/}]=1
done <"$list"
while read -r file reason; do
  [[ $file == *.cpp ]] || continue
  includes_kokkos[$file]=1
  [[ -v listed[$file] ]] || fail "$file includes Kokkos ($reason): list it in KERNELS, or include tensor/dispatch_dtype.hpp only"
done < <(readers Kokkos_)
for file in "${!listed[@]}"; do
  [[ -v includes_kokkos[$file] ]] || fail "$file is listed in KERNELS, but does not include Kokkos: list it in SOURCES"
done
while read -r file reason; do
  if [[ -v listed[$file] ]]; then fail "$file includes fmt ($reason), which nvcc does not take"; fi
done < <(readers fmt/)

echo "${#listed[@]} kernels, $failures violations"
[ ${#listed[@]} -gt 0 ] && [ "$failures" -eq 0 ]
