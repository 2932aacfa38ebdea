#!/usr/bin/env bash
# The supervisor in an allocation of three nodes: rank 0 is killed and comes back, then a node goes
# DOWN; the job continues on the others to the end.
# shellcheck source=tests/slurm/job.sh
. "$LOCKSTEP_SOURCE_DIR/tests/slurm/job.sh"

export MISBEHAVE="kill 0 7" MISBEHAVE_MARK=$PWD/mark MISBEHAVE_PACE=20
job=$(submit --nodes=3 --ntasks-per-node=1 --no-kill --output=elastic.log --wrap "exec build/release/apps/lockstep \
  elastic --min 2 --max 3 --rejoin 1 --settle 0.2 -- build/release/tests/apps/misbehave inputs/synthetic.toml \
  ${small[*]} --set 'run.dir=\"runs/elastic\"' --set train.epochs=60 --set comm.timeout=30")

# is_whole_again: the newest start, from the second on, is on all nodes and has made a step. On a
# busy machine slurmctld may miss a node for a moment: the job continues without it, or waits, and
# is complete again in its second start.
is_whole_again() {
  local starts
  starts=$(grep '"kind":"start"' runs/elastic/elastic.jsonl 2>/dev/null)
  [ "$(wc -l <<<"$starts")" -ge 2 ] && [[ ${starts##*$'\n'} == *'"ranks":3,'* ]] || return 1
  local lines
  lines=$(wc -l <runs/elastic/metrics.jsonl)
  sleep 1
  [ "$(wc -l <runs/elastic/metrics.jsonl)" -gt "$lines" ]
}
wait_until 120 "a start on all nodes again" is_whole_again
scontrol update nodename=node3 state=down reason=test
wait_until 240 "the end of job $job" is_over "$job"

expect_summary runs/elastic 's["completed"]' True
# history EXPRESSION VALUE: of the events, e.
history() {
  local value
  value=$(python3 -c 'import json, sys; e = [json.loads(line) for line in open("runs/elastic/elastic.jsonl")]
print(eval(sys.argv[1]))' "$1")
  [ "$value" = "$2" ] || fail "$1 of elastic.jsonl is $value, not $2: $(cat runs/elastic/elastic.jsonl)"
}
history '[x["why"] for x in e if x["kind"] == "end"][0]' "killed"
if ! grep -q '"kind":"wait"' runs/elastic/elastic.jsonl; then
  history '[x["ranks"] for x in e if x["kind"] == "start"][:2]' "[3, 2]"
  history '[x["why"] for x in e if x["kind"] == "end"][1]' "members"
fi
history '[x["ranks"] for x in e if x["kind"] == "start"][-2:]' "[3, 2]"
history '[x["blamed_hosts"] for x in e if x["kind"] == "end"][0]' "['node1']"
history '[x["hosts"] for x in e if x["kind"] == "start"][-1]' "{'node1': 1, 'node2': 1}"
