#!/usr/bin/env bash
# Doxygen's view of a header: its declarations belong to the group of its layer (docs/api/layers.dox). Line numbers stay: the
# first line of a header is `#pragma once` (test project.public_headers). A namespace of one line declares another layer's class.
case $1 in
  */src/lockstep/*/*.hpp)
    layer=${1##*/src/lockstep/}
    awk -v open="/** @addtogroup ${layer%%/*} */ /** @{ */" -v close_group='/** @} */' '
      { line[NR] = $0 }
      END {
        line[1] = open
        for (i = 1; i <= NR; ++i) {
          if (line[i] ~ /^namespace lockstep.*\{$/ && line[i + 2] != "}") line[i] = line[i] " " open
          if (line[i] ~ /^}  \/\/ namespace lockstep/) line[i] = close_group " " line[i]
          print line[i]
        }
        print close_group
      }' "$1"
    ;;
  *) cat "$1" ;;
esac
