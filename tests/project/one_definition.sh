#!/usr/bin/env bash
# No two files define a class of one name in one namespace: the linker would take one for the other, in
# silence. Argument: a source tree other than this one (project.layering_can_fail).
set -euo pipefail
cd "${1:-$LOCKSTEP_SOURCE_DIR}/src/lockstep"

mapfile -d '' files < <(find . -name '*.?pp' -print0 | sort -z)
# shellcheck disable=SC2016  # awk's own
awk '
  FNR == 1 { depth = 0 }
  /^namespace / { scope[++depth] = /^namespace [^{]/ ? $2 : FILENAME }
  /^}  \/\/ namespace/ { --depth }
  /^(class|struct|enum|enum class) [A-Za-z0-9_]+( final)?( :.*)?( \{.*)?$/ {
    name = $1 == "enum" && $2 == "class" ? $3 : $2
    full = ""
    for (d = 1; d <= depth; ++d) full = full scope[d] "::"
    full = full name
    ++classes
    if (full in where) {
      print FILENAME ":" FNR ": " full " is also defined in " where[full]
      ++failures
    }
    where[full] = FILENAME ":" FNR
  }
  END {
    print classes + 0 " classes, " failures + 0 " defined twice"
    exit failures > 0 || classes == 0
  }' "${files[@]}" </dev/null
