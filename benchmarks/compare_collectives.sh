#!/usr/bin/env bash
# Compares collectives with those of PyTorch (torch.distributed, backend Gloo): the same bytes on the same cores. The two
# sides run alternately, so that other load on the machine affects both. Prints the median time of a call in microseconds
# and PyTorch's time divided by Lockstep's: for ordinary tensors ("private"), tensors of shared_buffer ("shared") and
# MPI's own blocking call.
#   benchmarks/compare_collectives.sh PYTHON [PROGRAM]
# PYTHON   a python with torch (python3 -m venv scratch && scratch/bin/pip install torch numpy)
# PROGRAM  default build/release/benchmarks/comm/comm.collectives_bench
# Environment (defaults): RANKS (2), COLLECTIVES (all, "all_reduce broadcast ..."), BYTES ("4 1024 ..."), MPIEXEC
# (mpiexec).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?usage: benchmarks/compare_collectives.sh PYTHON [PROGRAM]}
program=${2:-build/release/benchmarks/comm/comm.collectives_bench}
ranks=${RANKS:-2}
read -r -a collectives <<<"${COLLECTIVES:-all_reduce broadcast reduce all_gather reduce_scatter all_to_all send_recv}"
read -r -a sizes <<<"${BYTES:-4 1024 16384 262144 1048576 4194304 26214400 67108864}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# "bytes private shared mpi" in microseconds
ours() {
  "${MPIEXEC:-mpiexec}" -n "$ranks" -bind-to core "$program" --benchmark_filter="^$1/bytes:$2/" --benchmark_format=json \
    2>"$scratch/err" >"$scratch/json" || { cat "$scratch/err" >&2; return 1; }
  awk -F '[:,]' '/"(private|shared|mpi)_us"/ {gsub(/[" ]/, "", $1); time[$1] = $2}
    END {print time["private_us"], time["shared_us"], time["mpi_us"]}' "$scratch/json"
}

printf '%-15s %10s %11s %11s %11s %11s %9s %9s\n' "$ranks ranks" bytes private shared MPI Gloo 'private x' 'shared x'
for collective in "${collectives[@]}"; do
  for size in "${sizes[@]}"; do
    read -r private shared mpi <<<"$(ours "$collective" "$size")"
    read -r _ _ gloo <<<"$("$python" benchmarks/pytorch/collectives.py "$ranks" "$collective" "$size")"
    awk -v name="$collective" -v bytes="$size" -v p="$private" -v s="$shared" -v m="$mpi" -v g="$gloo" 'BEGIN {
      printf "%-15s %10d %11.2f %11.2f %11.2f %11.2f %9.1f %9.1f\n", name, bytes, p, s, m, g, g / p, g / s }'
  done
done
