#!/bin/sh
# A really full disk, on two ranks: the save fails with one sentence and exit code 4, leaves no
# temporary file, and the checkpoint before it verifies. Once there is room, saving works again.
# Usage: disk_full.sh TOOL MPIEXEC [FLAGS...]; 77: this machine allows no mount namespace.
set -eu
if [ -z "${LOCKSTEP_IN_NAMESPACE:-}" ]; then
  if [ "$(id -u)" = 0 ]; then unshare="unshare -m"; else unshare="unshare -Urm"; fi
  $unshare true 2>/dev/null || { echo "SKIPPED: no mount namespace here"; exit 77; }
  LOCKSTEP_IN_NAMESPACE=1 exec $unshare sh "$0" "$@"
fi
tool=$1
shift
mpiexec=$1
shift
disk=$(mktemp -d)
trap 'umount "$disk"; rmdir "$disk"' EXIT
mount -t tmpfs -o size=4m tmpfs "$disk"
fail() { echo "FAILED: $*"; ls -la "$disk"; exit 1; }

way=save
save() { "$mpiexec" "$@" -n 2 "$tool" $way "$disk/c" "$step" 1; }
check_full() {
  code=0
  save "$@" >"$disk.out" 2>"$disk.err" || code=$?
  cat "$disk.err"
  [ $code = 4 ] || fail "exit code $code instead of 4"
  [ "$(grep -c . "$disk.err")" = 1 ] || fail "more or less than one line"
  grep -q "step-$(printf %08d $step).h5 was not written: .*No space left on device: free space there, or use another file system (1[.][0-9] MiB needed" "$disk.err" ||
    fail "another sentence"
  rm -f "$disk.out" "$disk.err"
  [ -z "$(find "$disk" -name '*.partial')" ] || fail "a temporary file was left"
  [ "$("$tool" newest "$disk/c")" = "$disk/c/step-00000001.h5" ] || fail "step 1 is not good"
}

step=1
save "$@" || fail "the first save"
step=2
dd if=/dev/zero of="$disk/filler" bs=64k count=36 2>/dev/null  # leaves room for a part of it
for way in save async; do check_full "$@"; done
dd if=/dev/zero of="$disk/rest" bs=4k 2>/dev/null && fail "the disk is not full"
for way in save async; do check_full "$@"; done
rm "$disk/filler" "$disk/rest"
save "$@" || fail "the save after making room"
[ "$("$tool" newest "$disk/c")" = "$disk/c/step-00000002.h5" ] || fail "step 2 is not good"
