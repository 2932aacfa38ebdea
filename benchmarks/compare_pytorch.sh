#!/usr/bin/env bash
# Compares the default deck with PyTorch DDP: the same model, data, batch and optimizer, one core a rank. The two sides
# run alternately, so that other load on the machine affects both. Prints the median samples/s of training and their
# ratio. Then it compares ResNet-18 and the transformer on random images (benchmarks/pytorch/model_step.py).
#   benchmarks/compare_pytorch.sh PYTHON [PROGRAM]
# PYTHON   a python with torch and numpy (python3 -m venv scratch && scratch/bin/pip install torch numpy)
# PROGRAM  classify; default build/release/apps/classify
# Environment (defaults): ROUNDS (3), EPOCHS (2), RANKS ("1 2"), MODELS ("convnet resnet18 transformer").
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?usage: benchmarks/compare_pytorch.sh PYTHON [PROGRAM]}
program=${2:-build/release/apps/classify}
rounds=${ROUNDS:-3} epochs=${EPOCHS:-2}
folder=${LOCKSTEP_DATA:-/usr/share/datasets/fashion-mnist}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mpiexec=$(command -v mpiexec.mpich || command -v mpiexec)
median() { sort -n | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# lockstep RANKS ARGUMENTS...: training samples/s of each epoch, one per line
lockstep() {
  local ranks=$1 && shift
  "$mpiexec" -n "$ranks" -bind-to core "$program" "$@" --set run.threads=1 --set "run.dir=\"$scratch/run\"" \
    --set log.every_steps=1000000 --set 'log.level="warn"' >"$scratch/log"
  sed -n 's/.*"kind":"epoch".*"samples_per_s":\([0-9.]*\).*/\1/p' "$scratch/run/metrics.jsonl"
  rm -rf "$scratch"/run*
}

# ours MODEL RANKS: the same for one of the models, by Lockstep
ours() {
  case $1 in
    convnet) lockstep "$2" inputs/fashion_mnist.toml --set "train.epochs=$epochs" ;;
    resnet18) of_synthetic_images "$2" resnet18 3 32 1024 64 ;;
    transformer) of_synthetic_images "$2" transformer 1 28 2048 64 ;;
  esac
}
of_synthetic_images() {
  lockstep "$1" inputs/synthetic.toml --set "model.kind=\"$2\"" --set "data.synthetic_channels=$3" \
    --set "data.synthetic_image_size=$4" --set "data.synthetic_samples=$5" --set "train.batch_size=$6" --set train.epochs=1
}
theirs() {
  case $1 in
    convnet) "$python" benchmarks/pytorch/ddp_convnet.py "$2" "$epochs" "$folder" ;;
    *) "$python" benchmarks/pytorch/model_step.py "$1" 64 6 "$2" ;;
  esac | sed -n 's/^samples\/s \([0-9]*\).*/\1/p'
}

printf '%-12s %5s %22s %22s %7s\n' model ranks 'Lockstep samples/s' 'PyTorch samples/s' ratio
for model in ${MODELS:-convnet resnet18 transformer}; do
  for ranks in ${RANKS:-1 2}; do
    : >"$scratch/ours" && : >"$scratch/theirs"
    for ((round = 0; round < rounds; ++round)); do
      ours "$model" "$ranks" >>"$scratch/ours"
      theirs "$model" "$ranks" >>"$scratch/theirs"
    done
    awk -v model="$model" -v n="$ranks" -v a="$(median <"$scratch/ours")" -v b="$(median <"$scratch/theirs")" \
      'BEGIN {printf "%-12s %5d %22.0f %22.0f %7.2f\n", model, n, a, b, a / b}'
  done
done
