#!/usr/bin/env bash
# scripts/slurm/train_gpu.sbatch on 2 nodes of 2 GPUs: each rank is shown a device of its own. The
# cluster's GPUs are device files without a device, so a script stands for the program.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

cat >app.sh <<'END'
#!/bin/sh
echo "$(hostname) local rank $SLURM_LOCALID sees GPU $CUDA_VISIBLE_DEVICES, deck $1"
END
chmod +x app.sh
export LOCKSTEP_APP=./app.sh
sbatch --test-only --nodes=2 scripts/slurm/train_gpu.sbatch inputs/synthetic.toml || fail "Slurm refuses the script"
job=$(submit --nodes=2 scripts/slurm/train_gpu.sbatch inputs/synthetic.toml)
finish "$job"
cat "lockstep-$job.log"
for node in node1 node2; do
  for rank in 0 1; do
    expect "lockstep-$job.log" "^$node local rank $rank sees GPU [01], deck inputs/synthetic.toml"
  done
  devices=$(sed -n "s/^$node .* sees GPU \(.*\), deck.*/\1/p" "lockstep-$job.log" | sort -u | wc -l)
  [ "$devices" = 2 ] || fail "the ranks of $node share a GPU"
done
