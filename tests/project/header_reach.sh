#!/usr/bin/env bash
# A public header (one path a line in $LOCKSTEP_BINARY_DIR/public_headers.txt, written at configuration)
# reaches at most 25 other headers of Lockstep: what it includes, what these include, and so on. A class
# keeps what only its source needs behind a pointer. An umbrella, which only includes, has no bound.
# Arguments: a list of headers other than the build's, and another bound (project.source_checks_can_fail).
set -euo pipefail
mapfile -t headers <"${1:-$LOCKSTEP_BINARY_DIR/public_headers.txt}"
cd "$LOCKSTEP_SOURCE_DIR/src"
mapfile -t files < <(find lockstep -name '*.hpp' | sort)

[ ${#files[@]} -gt 0 ] || files=(/dev/null)
printf '%s\n' "${headers[@]#"$LOCKSTEP_SOURCE_DIR"/src/}" |
  awk -v bound="${2:-25}" '
    FNR == 1 { ++file }
    file == 1 { if ($0 != "") public[++publics] = $0; next }
    /^[[:space:]]*#[[:space:]]*include[[:space:]]*<lockstep\// {
      split($0, part, /[<>]/)
      included[FILENAME, ++includes[FILENAME]] = part[2]
      next
    }
    !/^[[:space:]]*(#[[:space:]]*(pragma once|include).*|\/\/.*)?$/ { declares[FILENAME] = 1 }

    # How many headers `header` reaches, each once.
    function reach(header,   seen, queue, first, last, i, next_one) {
      if (header in known) return known[header]
      seen[header] = 1
      queue[last = 1] = header
      for (first = 1; first <= last; ++first) {
        for (i = 1; i <= includes[queue[first]]; ++i) {
          next_one = included[queue[first], i]
          if (next_one in seen) continue
          seen[next_one] = 1
          queue[++last] = next_one
        }
      }
      return known[header] = last - 1
    }
    # From a header, again and again, to the included one that reaches the most.
    function chain(header,   text, i, heaviest) {
      for (text = header; includes[header]; header = heaviest) {
        heaviest = included[header, 1]
        for (i = 2; i <= includes[header]; ++i) {
          if (reach(included[header, i]) > reach(heaviest)) heaviest = included[header, i]
        }
        text = text " -> " heaviest " (" reach(heaviest) ")"
      }
      return text
    }
    END {
      for (i = 1; i <= publics; ++i) {
        header = public[i]
        if (!(header in declares)) { ++umbrellas; continue }
        if (reach(header) > farthest) farthest = reach(header)
        if (reach(header) <= bound) continue
        printf "%s reaches %d headers, more than %d: %s\n", header, reach(header), bound, chain(header)
        ++failures
      }
      printf "%d public headers, %d of them umbrellas, %d the most that one reaches, %d violations\n",
        publics, umbrellas, farthest, failures
      exit publics == 0 || failures > 0
    }' - "${files[@]}"
