#!/usr/bin/env bash
# docs/tutorials/05_several_nodes.md: its ranks know their nodes, and its job of a loop of one's own, when it is asked to
# stop, saves, goes back into the queue and resumes.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

page=$LOCKSTEP_SOURCE_DIR/docs/tutorials/05_several_nodes.md
examples=$LOCKSTEP_BINARY_DIR/docs/examples
srun --mpi=pmi2 --nodes=2 --ntasks-per-node=2 "$examples/node_ranks" >ranks.log
while read -r line; do
  grep -qxF "$line" "$page" || fail "the page does not show: $line"
done <ranks.log
expect ranks.log '^rank 3 of 4: node 1 of 2, local rank 1 of 2$'

# The program asks itself to stop, by SIGUSR1 after step 45, as Slurm would.
printf '#!/bin/sh\nexec %s/snapshots stopped 45 10\n' "$examples" >mine
chmod +x mine
# shellcheck disable=SC2016  # backticks of Markdown
sed -n '/^#!\/bin\/bash$/,/^```$/{/^```/d;p}' "$page" >job.sbatch
job=$(submit --ntasks-per-node=2 --output=job.log job.sbatch)
wait_until 120 "the end of the second start" grep -qs "^complete after step 96" job.log
expect job.log "^stopped at step 46"
expect job.log "^resumed from step 46"
wait_until 60 "the end of job $job" is_over "$job"
