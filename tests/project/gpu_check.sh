#!/usr/bin/env bash
# The script for a machine with a GPU runs here on simulated devices, from a folder that was moved: so that no time of a
# GPU goes on a mistake in it. A phase that hangs or fails costs no other, and the table says so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}

"$LOCKSTEP_SOURCE_DIR/scripts/gpu/pack.sh" "$LOCKSTEP_BINARY_DIR" "$work/packed"
mv "$work/packed" "$work/moved"
check=$work/moved/scripts/gpu/check.sh
LIMIT_PERCENT=400 "$check" sim "$work/out" || { cat "$work"/out/*.log; fail "a phase failed"; }
for phase in environment kernels training nccl sanitizer; do
  grep -qE "^$phase +passed .* [1-9][0-9]* passed, 0 failed, 0 refused" "$work/out/table.txt" || fail "what $phase says"
done

phases=$work/moved/scripts/gpu/phases
cat >"$phases/kernels.sh" <<'END'
echo "= one of two"
trap '' TERM
timeout 1000 sleep 987654
END
echo 'echo "= not well"; exit 3' >"$phases/nccl.sh"
echo 'echo "speed lockstep net f32 8 30 samples/s"' >"$phases/ours.sh"
echo 'echo "speed eager net f32 8 20 samples/s"; echo "speed compile net f32 8 40.1 samples/s"' >"$phases/pytorch.sh"
code=0
LIMIT_PERCENT=5 "$check" sim "$work/bad" kernels nccl ours pytorch >"$work/output" || code=$?
[ "$code" -eq 1 ] || fail "exit code $code"
for row in '^kernels +out of time +[0-9]+ +3  one of two' '^nccl +failed .*not well' '^ours +passed' '^pytorch +passed' \
  '^net +f32 +8 +30 +20 +40\.1 +1\.50 +0\.75 +samples/s'; do
  grep -qE "$row" "$work/bad/table.txt" || { cat "$work/bad/table.txt"; fail "no line $row"; }
done
! grep -qa '98765[4]' /proc/[0-9]*/cmdline 2>/dev/null || fail "a process of the phase that hung is left"
cmp <(tail -n "$(wc -l <"$work/bad/table.txt")" "$work/output") "$work/bad/table.txt" || fail "the table is not printed"

! "$check" sim "$work/bad" 2>"$work/message" || fail "a folder that is not empty was taken"
grep -q 'is not empty' "$work/message" || fail "not refused for its folder"
! "$check" sim "$work/other" kernel 2>"$work/message" || fail "an unknown phase was taken"
grep -q 'there is no phase kernel$' "$work/message" || fail "not refused for the phase"
! "$check" gpu "$work/other" 2>"$work/message" || fail "an unknown device was taken"
grep -q usage "$work/message" || fail "not refused for the device"
cat "$work/out/table.txt"
