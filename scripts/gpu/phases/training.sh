#!/usr/bin/env bash
# Golden files, trainings of each kind of model on the device against the host, and checkpoints from one to the other.
# shellcheck source-path=SCRIPTDIR
. "$ROOT/scripts/gpu/phases/common.sh"

# train DIR DEVICE [ARGUMENT...]: 40 steps of a small MLP, every third saved.
train() {
  local dir=$SCRATCH/$1 device=$2
  shift 2
  ours timeout --kill-after=2 20 -- classify "$ROOT/inputs/synthetic.toml" --set "run.dir=\"$dir\"" \
    --set "run.device=\"$device\"" --set 'model.kind="mlp"' --set train.epochs=4 --set train.batch_size=60 \
    --set data.synthetic_samples=570 --set data.synthetic_test_samples=130 --set data.synthetic_image_size=18 \
    --set checkpoint.every_steps=3 --set checkpoint.keep=0 "$@"
}
test_loss() { sed -n 's/.*"test_loss": *\([-0-9.e+]*\).*/\1/p' "$SCRATCH/$1/summary.json"; }
# same_end A B: to the bit on a simulated device, to one per cent on a GPU.
same_end() {
  awk -v a="$(test_loss "$1")" -v b="$(test_loss "$2")" -v share="$([ "$DEVICE" = sim ] && echo 0 || echo 0.01)" 'BEGIN {
    print "test losses", a, b
    exit a == "" || (a > b ? a - b : b - a) > share * b }'
}
middle=checkpoints/step-00000027.h5
check 'training on the host' train host cpu
check "training on $DEVICE" train device "$DEVICE"
check "$DEVICE ends as the host" same_end host device
check "from the host to $DEVICE" train there "$DEVICE" --resume="$SCRATCH/host/$middle"
check 'that ends as the host' same_end host there
check "from $DEVICE to the host" train back cpu --resume="$SCRATCH/device/$middle"
check 'that ends as the host' same_end host back
tell_counts ''

cases train_test "Trainer/OnDevice.*_$DEVICE"
cases autograd_test "Devices/Golden*/$DEVICE"
finish
