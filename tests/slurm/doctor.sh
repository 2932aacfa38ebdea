#!/usr/bin/env bash
# Under srun --mpi=pmi2 the doctor sees the nodes. A plain srun, without PMI, is detected by it and
# by the applications, with the remedy and exit code 2. A folder of each node's own is detected too.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"
lockstep=build/release/apps/lockstep

srun --nodes=4 --ntasks-per-node=2 --cpus-per-task=1 --mpi=pmi2 $lockstep doctor >doctor.log 2>&1 ||
  fail "the doctor found errors"
expect doctor.log '^rank 5 on node3 \(its rank 1 of 2\): cores [0-9]+, owns 1$'
expect doctor.log '^link from rank 1 to rank 2: [0-9.]+ us, [0-9.]+ GB/s$'

# plain NAME COMMAND...: on 4 tasks without PMI
plain() {
  local name=$1 code=0
  shift
  srun --nodes=2 --ntasks=4 "$@" >"$name.log" 2>&1 || code=$?
  [ "$code" = 2 ] || fail "a plain srun of $name ended with exit code $code instead of 2"
  expect "$name.log" 'alone in its MPI world, but srun started 4 processes \(SLURM_STEP_NUM_TASKS=4\)'
  expect "$name.log" 'Start with srun --mpi=pmi2'
}
plain doctor $lockstep doctor
plain classify build/release/apps/classify inputs/synthetic.toml "${small[@]}" --set 'run.dir="plain"'
[ ! -e plain ] || fail "a run was half started"
