#!/usr/bin/env bash
# scripts/slurm/train.sbatch on 4 nodes x 2 tasks: all ranks train one model, with the losses and weights of
# as many ranks on one machine, with train.reduction = "invariant" to the bit those of one rank; and the output of a job can be read while it runs.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

job=$(submit --nodes=4 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}" --set train.epochs=2)
finish "$job"
expect "lockstep-$job.log" "on 8 ranks, 1 thread each, node1 node2 node3 node4; run folder runs/$job"
expect_summary "runs/$job" 's["completed"], s["ranks"], s["epochs"], s["steps"]' "(True, 8, 2, 20)"
expect_summary "runs/$job" 's["hosts"]' "['node1', 'node2', 'node3', 'node4']"

# on_one_machine RANKS ARGUMENT...: the same training, into runs/one_machine.
read -ra launch <<<"$LOCKSTEP_LAUNCHER"
on_one_machine() {
  rm -rf runs/one_machine
  "${launch[@]}" "$1" build/release/apps/classify inputs/synthetic.toml "${small[@]}" --set train.epochs=2 "${@:2}" \
    --set 'run.dir="runs/one_machine"' >one_machine.log 2>&1 || fail "the run on one machine ended with $?"
}

# expect_same_result RUN AWAY: as runs/one_machine, but for AWAY of the largest number.
expect_same_result() {
  /usr/bin/python3 - "$1" runs/one_machine "$2" <<'EOF' || fail "another result than on one machine"
import glob, json, sys
import h5py, numpy

def losses(run):
    lines = map(json.loads, open(run + "/metrics.jsonl"))
    return numpy.array([line["loss"] for line in lines if line["kind"] in ("step", "eval")])

def weights(run):
    parts = []
    with h5py.File(sorted(glob.glob(run + "/checkpoints/*.h5"))[-1]) as file:
        file["model"].visititems(lambda _, x: parts.append(x[()].ravel()) if isinstance(x, h5py.Dataset) else None)
    return numpy.concatenate(parts)

for what, least in (losses, 12), (weights, 1000):
    nodes, one_machine = (what(run) for run in sys.argv[1:3])
    assert nodes.shape == one_machine.shape and nodes.size >= least, (what.__name__, nodes.shape, one_machine.shape)
    away = float(numpy.max(numpy.abs(nodes - one_machine)) / numpy.max(numpy.abs(one_machine)))
    print(f"{what.__name__}: {nodes.size} numbers, at most {away:.1e} of the largest away")
    assert away <= float(sys.argv[3]), what.__name__
EOF
}

on_one_machine 8
expect_same_result "runs/$job" 1e-5  # the order of sums differs: f32, 20 steps

invariant=(--set 'train.reduction="invariant"' --set train.shards=16)
job=$(submit --nodes=4 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}" --set train.epochs=2 "${invariant[@]}")
finish "$job"
on_one_machine 1 "${invariant[@]}"
expect_same_result "runs/$job" 0

reads() { grep -qs "$1" "lockstep-$job.log"; }
job=$(submit --nodes=4 scripts/slurm/train.sbatch inputs/synthetic.toml "${small[@]}" --set train.epochs=100000)
wait_until 120 "the first epoch's line" reads "^epoch 1/100000 .*test accuracy"
[ "$(state_of "$job")" = "RUNNING " ] || fail "job $job does not run any more"
scancel "$job"
wait_until 120 "the end of job $job" is_over "$job"
expect_summary "runs/$job" 's["completed"]' False
