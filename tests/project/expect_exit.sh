#!/usr/bin/env bash
# expect_exit.sh CODE PATTERN COMMAND...: the command ends with CODE and prints PATTERN (grep -E).
set -uo pipefail
code=$1 pattern=$2
shift 2
output=$("$@" 2>&1)
actual=$?
printf '%s\n(exit code %d)\n' "$output" "$actual"
if [ "$actual" -ne "$code" ]; then
  echo "expected exit code $code"
  exit 1
fi
if ! grep -qE -- "$pattern" <<<"$output"; then
  echo "expected output to match: $pattern"
  exit 1
fi
