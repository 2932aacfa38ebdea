#!/usr/bin/env bash
# An HDF5 that HDF5_ROOT names, as a variable of CMake's or of the environment, wins over that on PATH: here one
# that says to be serial, at which the configuration ends with the remedy.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cached() { sed -n "s/^$1:[A-Z]*=//p" "$LOCKSTEP_BINARY_DIR/CMakeCache.txt"; }

mkdir -p "$work/hdf5/bin"
cat >"$work/hdf5/bin/h5pcc" <<EOF
#!/bin/sh
"$(cached HDF5_C_COMPILER_EXECUTABLE)" "\$@" | sed 's/Parallel HDF5: yes/Parallel HDF5: no/'
EOF
chmod +x "$work/hdf5/bin/h5pcc"

# expect_taken ARGUMENT...: of cmake.
expect_taken() {
  if cmake --fresh -S "$LOCKSTEP_SOURCE_DIR" -B "$work/build" -G Ninja -DLOCKSTEP_MPI="$(cached LOCKSTEP_MPI)" "$@" \
    >"$work/log" 2>&1 || ! tr -s '\n ' ' ' <"$work/log" | grep -q 'HDF5 at .* is serial\. .* configure again with --fresh\.'
  then
    cat "$work/log"
    echo "FAILED: the HDF5 of HDF5_ROOT was not taken"
    exit 1
  fi
}
expect_taken -DHDF5_ROOT="$work/hdf5"
HDF5_ROOT=$work/hdf5 expect_taken
