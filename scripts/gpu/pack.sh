#!/usr/bin/env bash
# scripts/gpu/pack.sh BUILD FOLDER
#
# Puts the files that scripts/gpu/check.sh runs into FOLDER, a new one: the programs of programs.txt
# as built in BUILD, MPICH's launcher, the shared libraries that they need, golden data, decks,
# PyTorch's programs and the scripts. FOLDER can be moved, also to another machine. Libraries of the
# machine itself stay behind: the C library, which must be as new there as here, the driver and
# CUDA's libraries.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:?usage: scripts/gpu/pack.sh BUILD FOLDER} folder=${2:?usage: scripts/gpu/pack.sh BUILD FOLDER}
own_libraries='^(linux-vdso|ld-linux|libc\.|libm\.|libdl\.|libpthread\.|librt\.|libresolv\.|libutil\.)'
cuda_libraries='^lib(cuda|cudart|cublas|cublasLt|cudnn[a-z_]*|nccl|nvrtc[a-z.-]*|nvJitLink)\.'

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

mkdir "$folder"
mkdir -p "$folder"/{bin,lib,tests,benchmarks}
while read -r program; do
  case $program in
    '#'*) continue ;;
    'nccl '*)
      [ "$(cached LOCKSTEP_ENABLE_NCCL)" = ON ] || continue
      program=${program#nccl }
      ;;
  esac
  cp "$build/$program" "$folder/bin/"
done <scripts/gpu/programs.txt
launcher=$(readlink -f "$(cached MPIEXEC_EXECUTABLE)")
cp "$launcher" "$folder/bin/mpiexec"
cp "$(dirname "$launcher")/hydra_pmi_proxy" "$folder/bin/"

# NAME PATH of each shared library, PATH "not" if none is found.
needed() { ldd "$folder"/bin/* | awk '$2 == "=>" {print $1, $3}' | sort -u; }
while read -r name path; do
  if grep -qE "$own_libraries|$cuda_libraries" <<<"$name"; then continue; fi
  if [ "$path" = not ]; then
    echo "pack: $name, which a program of $build needs, is not found" >&2
    exit 1
  fi
  cp -L "$path" "$folder/lib/$name"
done < <(needed)
strip "$folder"/bin/* "$folder"/lib/*

cp -r inputs "$folder/"
cp -r scripts "$folder/"
mkdir "$folder/tests/golden"
cp tests/golden/*.h5 "$folder/tests/golden/"
cp -r benchmarks/pytorch "$folder/benchmarks/"
{
  echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
  echo "LOCKSTEP_ARCH $(cached LOCKSTEP_ARCH)"
  echo "LOCKSTEP_ENABLE_CUDA $(cached LOCKSTEP_ENABLE_CUDA)"
} >"$folder/BUILT"
