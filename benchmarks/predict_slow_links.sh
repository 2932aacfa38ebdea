#!/usr/bin/env bash
# predict_slow_links.sh [RATE] [OPTION OF lockstep scaling...]
#
# By hand, as root: how far is `lockstep scaling` off that predicts 4 nodes from 1 and 2? On the tests' Slurm of four nodes,
# all on this machine, whose links are slowed to RATE (1gbit): a network namespace a node, tc's tbf on each end. One rank a
# node, a model of 1.9 million parameters, strong scaling. `--set train.batch_size=128` makes links nine tenths of a step. Wants a release build and a core for each of the 4 ranks: with fewer
# the ranks share them, which no figure in the table then tells, as Slurm believes in its nodes. Look at the line of 4 ranks, "held out".
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${SLURM_LAB:-}" ]; then
  rate=${1:-1gbit}
  [ $# -eq 0 ] || shift
  [ "$(nproc)" -ge 4 ] || echo "only $(nproc) cores for 4 ranks: their compute time is not that of ranks with cores of their own"
  exec tests/slurm/cluster.sh --rate "$rate" benchmarks/predict_slow_links.sh "$@"
fi

# The nodes are namespaces of one kernel: UCX would find shared memory between them, and Slurm would bind the first rank
# of each node to the same core.
export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 SLURM_CPU_BIND=none
folder=$SLURM_LAB/study
salloc --quiet --nodes=4 --ntasks-per-node=1 build/release/apps/lockstep scaling inputs/synthetic.toml \
  --set model.kind=\"mlp\" --set 'model.hidden=[1024,1024]' --set train.batch_size=512 \
  --ranks 1,2,4 --nodes 1,2,4 --fit 1,2 --output "$folder" "$@"
