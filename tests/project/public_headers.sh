#!/usr/bin/env bash
# Public headers (one path a line in $LOCKSTEP_BINARY_DIR/public_headers.txt, written at configuration)
# include the standard library and public headers of Lockstep, and nothing else, except
#   comm/mpi_group.hpp                                    mpi.h
#   rpc/archive.hpp                                       cereal: what can be sent is decided where it is sent
#   tensor/view.hpp, tensor/dispatch.hpp, tensor/kernels/ Kokkos; only these include view.hpp
# Kernel headers (those that include view.hpp) are included by no other public header.
set -euo pipefail
mapfile -t headers <"${1:-$LOCKSTEP_BINARY_DIR/public_headers.txt}"
public=" ${headers[*]#"$LOCKSTEP_SOURCE_DIR"/src/} "

files=0 failures=0
fail() {
  echo "$1"
  failures=$((failures + 1))
}
# Of all headers at once, as two processes a header take seconds: PATH:LINE:INCLUDED of each #include, and PATH:1: of those
# whose first line is another than it should be.
includes() {
  awk '
    FNR == 1 && $0 != "#pragma once" { print FILENAME ":1:" }
    /^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"][^>"]*[>"]/ {
      split($0, part, /[<>"]/)
      print FILENAME ":" FNR ":" part[2]
    }' "${headers[@]}" </dev/null
}
mapfile -t lines < <(includes)

kernel_headers=" "
for line in "${lines[@]}"; do
  case ${line##*:} in
    lockstep/tensor/view.hpp | lockstep/tensor/dispatch.hpp | Kokkos_*) kernel_headers+="${line%%:*} " ;;
  esac
done
kernel_headers=${kernel_headers//"$LOCKSTEP_SOURCE_DIR/src/"/}

files=${#headers[@]}
for header in "${headers[@]}"; do
  [ -s "$header" ] || fail "${header#"$LOCKSTEP_SOURCE_DIR"/src/}:1: the header is empty"
done
for found in "${lines[@]}"; do
  IFS=: read -r header line include <<<"$found"
  name=${header#"$LOCKSTEP_SOURCE_DIR"/src/}
  case $name in
    lockstep/tensor/view.hpp | lockstep/tensor/dispatch.hpp | lockstep/tensor/kernels/*) kernel=yes ;;
    *) kernel=no ;;
  esac
  case $include in
    "") fail "$name:1: the first line is not '#pragma once'" ;;
    lockstep/*)
      if [[ $public != *" $include "* ]]; then
        fail "$name:$line: <$include> is not a public header: list it in HEADERS of its layer"
      elif [ "$kernel" = no ] && [[ $kernel_headers == *" $include "* ]]; then
        fail "$name:$line: <$include> brings Kokkos into a header that is not a kernel's"
      fi
      ;;
    mpi.h) [ "$name" = lockstep/comm/mpi_group.hpp ] || fail "$name:$line: only comm/mpi_group.hpp includes mpi.h" ;;
    cereal/*) [ "$name" = lockstep/rpc/archive.hpp ] || fail "$name:$line: only rpc/archive.hpp includes cereal" ;;
    Kokkos_*) [ "$kernel" = yes ] || fail "$name:$line: only tensor/view.hpp and kernels include Kokkos" ;;
    *[./]*) fail "$name:$line: <$include> is neither the standard library's nor Lockstep's" ;;
  esac
done

echo "$files public headers, $failures violations"
[ "$files" -gt 0 ] && [ "$failures" -eq 0 ]
