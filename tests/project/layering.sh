#!/usr/bin/env bash
# A layer of src/lockstep/ includes itself, what its row names and, transitively, what those may use
# (docs/design/README.md, "Layers"). Argument: a source tree other than this one (project.layering_can_fail).
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

declare -A allowed
for layer in "${!may_use[@]}"; do
  allowed[$layer]=" $(closure "$layer" | sort -u | tr '\n' ' ') "
done

mapfile -t files < <(find . -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.in' \) | sed 's|^\./||' | grep / | sort)
includes=0 failures=0
fail() {
  echo "src/lockstep/$1"
  failures=$((failures + 1))
}
for file in "${files[@]}"; do
  [[ -v may_use[${file%%/*}] ]] || fail "$file: no such layer; the layers are ${!may_use[*]}"
done
while IFS=: read -r file line text; do
  layer=${file%%/*}
  [[ -v may_use[$layer] ]] || continue
  includes=$((includes + 1))
  part=
  if [[ $file =~ ^comm/([a-z_]+)/ ]]; then part=${BASH_REMATCH[1]}; fi
  parts=" $part ${part:+${part_may_use[$part]-}} "
  if [[ $text =~ ^[[:space:]]*#[[:space:]]*include[[:space:]]*\<lockstep/([a-z_]+)/ ]]; then
    target=${BASH_REMATCH[1]}
    if [[ ${allowed[$layer]} != *" $target "* ]]; then
      fail "$file:$line: layer $layer must not use $target (it may use:${allowed[$layer]})"
    fi
    if [[ $layer == comm && $text =~ \<lockstep/comm/([a-z_]+)/ && $parts != *" ${BASH_REMATCH[1]} "* ]]; then
      fail "$file:$line: ${part:-the interface} of comm must not use ${BASH_REMATCH[1]}"
    fi
  elif [[ $text == *\"* ]]; then
    fail "$file:$line: $text (write <lockstep/LAYER/file.hpp>)"
  fi
done < <(grep -nHE '^[[:space:]]*#[[:space:]]*include' "${files[@]}" /dev/null || true)

echo "${#files[@]} files, $includes includes, $failures violations"
[ ${#files[@]} -gt 0 ] && [ "$includes" -gt 0 ] && [ "$failures" -eq 0 ]
