#!/usr/bin/env bash
# Kernels and training steps of Lockstep: lines "speed lockstep MODEL PRECISION BATCH VALUE UNIT", a median.
# Without a GPU the models are small, and so are the figures.
# shellcheck source-path=SCRIPTDIR
. "$ROOT/scripts/gpu/phases/common.sh"

# measure MODEL PRECISION BATCH UNIT PROGRAM ARGUMENT...
measure() {
  local model=$1 precision=$2 batch=$3 unit=$4 dir=$SCRATCH/$1_$2 code=0 value
  shift 4
  [ "$GRAPHS" = false ] || model+=+graphs
  ours timeout --kill-after=2 40 -- "$@" --set "run.dir=\"$dir\"" --set "run.device=\"$DEVICE\"" \
    --set "train.precision=\"$precision\"" --set "train.batch_size=$batch" --set "run.max_minutes=$MINUTES" \
    --set train.epochs=1000 --set log.every_steps=5 --set checkpoint.every_epochs=0 --set "run.graphs=$GRAPHS" || code=$?
  [ "$code" -eq 0 ] || [ "$code" -eq 75 ] || return "$code"  # 75: its time limit is over
  value=$(grep '"kind":"step"' "$dir/metrics.jsonl" | sed -n "s|.*\"${unit%/s}_per_s\":\([0-9.e+]*\).*|\1|p" |
    tail -n +2 | sort -g | awk '{v[NR] = $1} END {if (NR) print v[int((NR + 1) / 2)]}')
  echo "memory lockstep $model $precision $batch $(tr -d ' \n' <"$dir/summary.json" |
    sed -n 's/.*"peak_device_mib":\[\([0-9]*\).*/\1/p') MiB"
  rm -rf "$dir"
  [ -n "$value" ] && echo "speed lockstep $model $precision $batch $value $unit"
}
MINUTES=0.12 GRAPHS=false  # minutes of a training, its start included
images() {  # MODEL PRECISION BATCH SIZE COLOURS STEPS
  check "$1 $2" measure "$1$4" "$2" "$3" samples/s classify "$ROOT/inputs/synthetic.toml" --set "model.kind=\"$1\"" \
    --set "data.synthetic_image_size=$4" --set "data.synthetic_channels=$5" --set "data.synthetic_samples=$(($3 * $6))" \
    --set data.synthetic_test_samples=10
}
tokens() {  # PRECISION BATCH CONTEXT WIDTH DEPTH HEADS VOCABULARY
  check "gpt $1" measure gpt "$1" "$2" tokens/s gpt train "$ROOT/inputs/gpt_bible.toml" \
    --set "data.path=\"$SCRATCH/tokens\"" --set "data.context=$3" --set "model.width=$4" --set "model.depth=$5" \
    --set "model.heads=$6" --set "data.vocabulary=$7" --set data.test_set=false --set optimizer.clip_norm=0 \
    --set schedule.warmup=2
}
head -c 3000000 /dev/urandom | base64 -w 0 >"$SCRATCH/text"
if [ "$DEVICE" = cuda ]; then
  check kernels ours timeout --kill-after=2 20 -- tensor.device_bench cuda 268435456 8192
  check 'tokens' ours -- gpt tokens "$SCRATCH/text" --output "$SCRATCH/tokens"
  images convnet f32 128 28 1 400
  GRAPHS=true images convnet f32 128 28 1 400
  MINUTES=0.3 tokens bf16 32 1024 768 12 12 50304
  images resnet18 bf16 256 32 3 20
  images resnet18 bf16 64 224 3 10
else
  check kernels ours -- tensor.device_bench "$DEVICE" 65536 64
  head -c 100000 "$SCRATCH/text" >"$SCRATCH/short"
  check 'tokens' ours -- gpt tokens "$SCRATCH/short" --output "$SCRATCH/tokens"
  images convnet f32 16 28 1 100
  GRAPHS=true images convnet f32 16 28 1 100
  tokens bf16 2 32 32 2 2 96
fi
finish
