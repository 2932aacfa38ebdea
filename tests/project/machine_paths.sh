#!/usr/bin/env bash
# Nothing in the repository depends on, or speaks of, somebody's machine: no home folders, no scratch
# folders, no addresses but the loopback's. No file is the output of a command that somebody ran here and
# committed: each has a name in letters. Argument: a tree other than this one (project.machine_paths_can_fail).
set -euo pipefail
cd "${1:-$LOCKSTEP_SOURCE_DIR}"

if [ -e .git ]; then
  mapfile -d '' -t files < <(git ls-files -z)
else
  mapfile -d '' -t files < <(find . -type f -not -path './build/*' -not -path './runs/*' -print0)
fi
if [ ${#files[@]} -eq 0 ]; then
  echo "no files were found in $PWD"
  exit 1
fi

if printf '%s\n' "${files[@]}" | grep -E '(^|/)[^A-Za-z/]+$'; then
  echo "these files have no name in letters: were they left by a command?"
  exit 1
fi

folders='(^|[^A-Za-z0-9_./$}-])/(home|root|work|scratch|Users|mnt|lustre|gpfs)/[A-Za-z0-9]'
addresses='(^|[^0-9.])(10|172\.(1[6-9]|2[0-9]|3[01])|192\.168)\.[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?([^0-9.]|$)'
if grep -nIE "$folders|$addresses" -- "${files[@]}"; then
  echo "these lines name a place on one machine"
  exit 1
fi
echo "${#files[@]} files, none names a machine's paths"
