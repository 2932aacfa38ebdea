#!/bin/sh
# Any number of processes reads, bit for bit, the files written by any other number. Usage:
# across_sizes.sh TOOL MPIEXEC [FLAGS...]
set -eu
tool=$1
mpiexec=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for writers in 1 2 3; do
  "$mpiexec" "$@" -n $writers "$tool" save "$folder" $writers 9
  for readers in 1 2 3; do
    "$mpiexec" "$@" -n $readers "$tool" check "$folder" $writers 9
  done
done
# Shows that the check can fail.
code=0
"$mpiexec" "$@" -n 2 "$tool" check "$folder" 1 5 2>"$folder/err" || code=$?
cat "$folder/err"
[ $code = 4 ] && grep -q "other bits were loaded than saved" "$folder/err"
