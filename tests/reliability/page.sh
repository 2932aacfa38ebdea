#!/usr/bin/env bash
# docs/reference/reliability.md has a row for each fault that run.sh injects, with the same text and
# count, and no unexpected outcome. page.sh RELIABILITY PAGE
set -euo pipefail
rows=$(sed -n '/^<!-- table:/,/^<!-- end of the table/p' "$2" | grep '^| `')
fail() { echo "FAILED: $*; tests/reliability/run.sh --write renews the page"; exit 1; }
listed=$("$1" --list)
[ "$(wc -l <<<"$rows")" = "$(wc -l <<<"$listed")" ] || fail "other faults than --list has"
while read -r row; do
  grep -qF -- "$row " <<<"$rows" || fail "no row begins with: $row"
done <<<"$listed"
! grep -E 'wrong|not tried' <<<"$rows" || fail "these rows tell of a failure"
