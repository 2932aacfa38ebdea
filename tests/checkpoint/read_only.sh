#!/bin/sh
# A folder on a read-only mount (mode bits do not stop root): the save fails with one sentence and
# exit code 4, and the existing files still verify. Usage: read_only.sh TOOL MPIEXEC [FLAGS...]
set -eu
if [ -z "${LOCKSTEP_IN_NAMESPACE:-}" ]; then
  if [ "$(id -u)" = 0 ]; then unshare="unshare -m"; else unshare="unshare -Urm"; fi
  $unshare true 2>/dev/null || { echo "SKIPPED: no mount namespace here"; exit 77; }
  LOCKSTEP_IN_NAMESPACE=1 exec $unshare sh "$0" "$@"
fi
tool=$1
mpiexec=$2
shift 2
folder=$(mktemp -d)
trap 'umount "$folder" 2>/dev/null; rm -rf "$folder" "$folder.err"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

"$mpiexec" "$@" -n 2 "$tool" save "$folder" 1 1
mount --bind "$folder" "$folder"
mount -o remount,bind,ro "$folder"
code=0
"$mpiexec" "$@" -n 2 "$tool" save "$folder" 2 1 2>"$folder.err" || code=$?
cat "$folder.err"
[ $code = 4 ] || fail "exit code $code instead of 4"
[ "$(grep -c . "$folder.err")" = 1 ] || fail "more or less than one line"
grep -q "was not written: cannot create .*: Read-only file system" "$folder.err" || fail "another sentence"
"$mpiexec" "$@" -n 2 "$tool" check "$folder" 1 1 || fail "step 1 is not as it was"
