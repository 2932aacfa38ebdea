#!/usr/bin/env bash
# A layer of src/lockstep/ includes itself, what its row names and, transitively, what those may use
# (docs/design.md, "Layers"). Argument: a source tree other than this one (project.layering_can_fail).
set -euo pipefail
cd "${1:-$LOCKSTEP_SOURCE_DIR}/src/lockstep"

declare -A may_use=(
  [base]=""
  [deck]="base"
  [tensor]="base"
  [comm]="tensor deck"
  [io]="base"
  [autograd]="tensor deck"
  [nn]="autograd"
  [optim]="nn"
  [data]="tensor deck io"
  [parallel]="nn optim comm"
  [rpc]="autograd optim comm"
  [checkpoint]="io comm"
  [predict]="nn checkpoint"
  [train]="base deck tensor comm io autograd nn optim data parallel rpc checkpoint predict"
)

# Within comm the interface lies on top, with what all parts know; the parts are folders.
declare -A part_may_use=(
  [flight]=""
  [engine]="flight"
  [node]="engine"
  [mpi]="engine node flight"
  [threads]="engine node"
  [nccl]="engine flight"
)

# The layer itself and everything below it.
closure() {
  local layer=$1 below
  echo "$layer"
  for below in ${may_use[$layer]}; do closure "$below"; done
}

files=0 includes=0 failures=0
while IFS= read -r file; do
  files=$((files + 1))
  layer=${file%%/*}
  if [[ ! -v may_use[$layer] ]]; then
    echo "src/lockstep/$file: no such layer; the layers are ${!may_use[*]}"
    failures=$((failures + 1))
    continue
  fi
  allowed=" $(closure "$layer" | sort -u | tr '\n' ' ') "
  part=$(sed -nE 's#^comm/([a-z_]+)/.*#\1#p' <<<"$file")
  parts=" $part ${part:+${part_may_use[$part]-}} "
  while IFS=: read -r line text; do
    includes=$((includes + 1))
    if [[ $text =~ ^[[:space:]]*#[[:space:]]*include[[:space:]]*\<lockstep/([a-z_]+)/ ]]; then
      target=${BASH_REMATCH[1]}
      if [[ $allowed != *" $target "* ]]; then
        echo "src/lockstep/$file:$line: layer $layer must not use $target (it may use:$allowed)"
        failures=$((failures + 1))
      fi
      if [[ $layer == comm && $text =~ \<lockstep/comm/([a-z_]+)/ && $parts != *" ${BASH_REMATCH[1]} "* ]]; then
        echo "src/lockstep/$file:$line: ${part:-the interface} of comm must not use ${BASH_REMATCH[1]}"
        failures=$((failures + 1))
      fi
    elif [[ $text == *\"* ]]; then
      echo "src/lockstep/$file:$line: $text (write <lockstep/LAYER/file.hpp>)"
      failures=$((failures + 1))
    fi
  done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' "$file" || true)
done < <(find . -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.in' \) | sed 's|^\./||' | grep / | sort)

echo "$files files, $includes includes, $failures violations"
[ "$files" -gt 0 ] && [ "$includes" -gt 0 ] && [ "$failures" -eq 0 ]
