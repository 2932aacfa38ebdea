#!/usr/bin/env bash
# A scaling study in one allocation, by the job script that the command itself prints: sizes in one node and on two.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

build/release/apps/lockstep scaling inputs/synthetic.toml "${small[@]}" --ranks 1,2,2 --nodes 1,1,2 --repeat 1 \
  --steps 8 --warmup 2 --output runs/study --script slurm >study.sbatch
job=$(submit study.sbatch)
finish "$job"
log=lockstep-scaling-$job.log
expect "$log" "^point 3/6: 2 ranks on 2 nodes, benchmarks: "
expect "$log" "^point 6/6: 2 ranks on 2 nodes, repeat 1: .* ms a step"
sizes=$(python3 -c 'import json; s = json.load(open("runs/study/scaling.json"))
print([(x["ranks"], x["nodes"], x["repeats"]) for x in s["sizes"]], len(s["benchmarks"][2]["collectives"]))')
[ "$sizes" = "[(1, 1, 1), (2, 1, 1), (2, 2, 1)] 20" ] || fail "the study has $sizes: $(cat "$log")"

# The same job again has nothing left to measure; a size without room is refused.
job=$(submit study.sbatch)
finish "$job"
expect "lockstep-scaling-$job.log" "^6 of 6 points are done already"
code=0
srun --nodes=1 --ntasks=1 build/release/apps/lockstep scaling inputs/synthetic.toml --ranks 4 \
  --output runs/other >refused.log 2>&1 || code=$?
[ "$code" = 2 ] || fail "4 ranks in an allocation of 1 ended with code $code: $(cat refused.log)"
