#!/usr/bin/env bash
# ratios.sh OUT: a line for each step measured in OUT/ours.log, with PyTorch's if OUT/pytorch.log
# has it.
set -euo pipefail
{ cat "$1/ours.log" "$1/pytorch.log" 2>/dev/null || true; } | awk '
  $1 == "speed" {
    step = $3 " " $4 " " $5
    if (!(step in unit)) order[++steps] = step
    unit[step] = $7
    value[step, $2] = $6
  }
  function show(v) { return v == "" ? "-" : sprintf("%.5g", v) }
  function ratio(a, b) { return a == "" || b == "" ? "-" : sprintf("%.2f", a / b) }
  END {
    if (!steps) exit
    printf "\n%-16s %-5s %6s %12s %12s %12s %7s %7s  %s\n", "model", "", "batch", "Lockstep", "eager", "compile", "/eager",
      "/comp.", "unit"
    for (i = 1; i <= steps; ++i) {
      step = order[i]
      split(step, part, " ")
      theirs = step
      sub(/\+graphs/, "", theirs)
      a = value[step, "lockstep"]; b = value[theirs, "eager"]; c = value[theirs, "compile"]
      printf "%-16s %-5s %6d %12s %12s %12s %7s %7s  %s\n", part[1], part[2], part[3], show(a), show(b), show(c),
        ratio(a, b), ratio(a, c), unit[step]
    }
  }'
