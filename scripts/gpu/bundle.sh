#!/usr/bin/env bash
# scripts/gpu/bundle.sh KOKKOS_PREFIX
#
# Builds with CUDA in build/gpu and makes build/lockstep_gpu.tar.xz, a folder for a machine with a
# GPU and its CUDA libraries, but without MPI and the libraries that a build needs. There:
#   tar -xf lockstep_gpu.tar.xz && lockstep_gpu/scripts/gpu/check.sh cuda OUT
#   KOKKOS_PREFIX        install folder of a Kokkos with CUDA, a shared library (docs/guide/check_a_gpu.md)
#   LOCKSTEP_CMAKE_ARGS  further arguments of the configuration, e.g. "-DNCCL_ROOT=..."
#   JOBS                 parallel compilations (default: the cores of this process)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
prefix=${1:?usage: scripts/gpu/bundle.sh KOKKOS_PREFIX}
limit_mib=64
if ! compgen -G "$prefix/lib*/libkokkoscore.so" >/dev/null; then
  echo "bundle: there is no libkokkoscore.so below $prefix: build Kokkos with BUILD_SHARED_LIBS=ON (docs/guide/check_a_gpu.md)" >&2
  exit 2
fi

read -r -a options <<<"${LOCKSTEP_CMAKE_ARGS:-}"
cmake --preset cuda -B build/gpu -DKokkos_ROOT="$prefix" -DBUILD_SHARED_LIBS=ON -DLOCKSTEP_ARCH=x86-64-v3 \
  -DLOCKSTEP_ENABLE_NCCL=ON "${options[@]}"
mapfile -t targets < <(sed -n '/^#/!s|.*/||p' scripts/gpu/programs.txt)
cmake --build build/gpu --parallel "${JOBS:-$(nproc)}" --target "${targets[@]}"

rm -rf build/lockstep_gpu build/lockstep_gpu.tar.xz
scripts/gpu/pack.sh build/gpu build/lockstep_gpu
XZ_OPT='-6 --threads=0' tar -C build -cJf build/lockstep_gpu.tar.xz lockstep_gpu
bytes=$(stat --format %s build/lockstep_gpu.tar.xz)
printf 'build/lockstep_gpu.tar.xz: %d MiB packed, %d MiB unpacked\n' $((bytes >> 20)) \
  "$(du -sm build/lockstep_gpu | cut -f1)"
if [ "$bytes" -gt $((limit_mib << 20)) ]; then
  echo "bundle: more than $limit_mib MiB packed, which is the limit" >&2
  exit 1
fi
