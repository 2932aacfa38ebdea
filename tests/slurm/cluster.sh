#!/usr/bin/env bash
# cluster.sh [--nodes N] [--cores N] [--gpus N] [--rate RATE] COMMAND...
#
# Runs COMMAND beside a real Slurm of N nodes (4, of 2 cores and no GPU), all on this machine, and ends
# with COMMAND's exit code. Controller, node daemons and munge run in namespaces of their own (PID,
# mount, UTS, network, IPC), so nothing of the machine's own Slurm is touched and nothing is left
# behind: when COMMAND ends, or this script dies in any way, the kernel kills all of it.
# Each node has a UTS namespace too, so gethostname() there says node1, node2, ..., and a munged. The GPUs are device
# files without a device. With --rate, as 1gbit, each node has a network namespace as well, and a link of that rate in each
# direction to a switch (a bridge) that all share; else they share the loopback. The nodes share the machine's file systems, memory and cores.
#   SLURM_LAB  (COMMAND sees it) a scratch folder; log/ in it holds the daemons' logs
# 77: not root, or no Slurm here: the test that started this is skipped.
set -euo pipefail

export PATH=$PATH:/usr/sbin:/sbin
nodes=4 cores=2 gpus=0 rate=
while [ $# -gt 0 ]; do
  case $1 in
    --nodes) nodes=$2 ;;
    --cores) cores=$2 ;;
    --gpus) gpus=$2 ;;
    --rate) rate=$2 ;;
    *) break ;;
  esac
  shift 2
done

if [ -z "${LOCKSTEP_IN_CLUSTER:-}" ]; then
  skip() { echo "SKIPPED: $*"; exit 77; }
  [ "$(id -u)" = 0 ] || skip "a Slurm of one's own needs root"
  for tool in munged slurmctld slurmd sbatch ip; do
    command -v "$tool" >/dev/null || skip "$tool was not found (scripts/packages.txt, section test)"
  done
  isolated=(unshare --mount --pid --fork --kill-child --mount-proc --uts --net --ipc)
  "${isolated[@]}" true 2>/dev/null || skip "this machine allows no namespaces"
  # A job of another Slurm may be what runs this test.
  for variable in ${!SLURM*} ${!PMI*}; do unset "$variable"; done
  SLURM_LAB=$(mktemp -d)
  export SLURM_LAB LOCKSTEP_IN_CLUSTER=1
  trap 'rm -rf "$SLURM_LAB"' EXIT
  code=0
  setpriv --pdeathsig KILL "${isolated[@]}" \
    "$0" --nodes "$nodes" --cores "$cores" --gpus "$gpus" --rate "$rate" "$@" || code=$?
  exit "$code"
fi

# From here on this is process 1 of the namespaces.
lab=$SLURM_LAB
export SLURM_CONF=$lab/slurm.conf
mkdir -p "$lab"/{munge,state,spool,log}
chmod 755 "$lab" "$lab/munge"  # munged refuses a socket that others cannot reach
address() { echo "10.99.0.$1"; }  # of node $1; the head node is 100

network() {
  local node
  ip link set lo up
  # Slurm looks for an address that is not the loopback's.
  if [ -n "$rate" ]; then
    ip link add switch type bridge
    ip addr add "$(address 100)/24" dev switch
    ip link set switch up
  else
    ip addr add "$(address 100)/32" dev lo
  fi
  [ -n "$rate" ] || for ((node = 1; node <= nodes; node++)); do ip addr add "$(address "$node")/32" dev lo; done
  {
    echo "$(address 100) head"
    for ((node = 1; node <= nodes; node++)); do echo "$(address "$node") node$node"; done
    cat /etc/hosts
  } >"$lab/hosts"
  mount --bind "$lab/hosts" /etc/hosts
  hostname head
}

gpu_files() {
  local gpu
  [ "$gpus" -gt 0 ] || return 0
  for ((gpu = 0; gpu < gpus; gpu++)); do
    mknod "$lab/gpu$gpu" c 1 3  # any device: Slurm only wants to see one
    echo "Name=gpu Type=fake File=$lab/gpu$gpu"
  done >"$lab/gres.conf"
}

# The network is our own, so any port is free.
configuration() {
  local node
  cat <<EOF
ClusterName=lab
SlurmctldHost=head($(address 100))
SlurmctldPort=6817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$lab/munge/socket,cred_expire=5
StateSaveLocation=$lab/state
SlurmdSpoolDir=$lab/spool/%n
SlurmctldPidFile=$lab/slurmctld.pid
SlurmdPidFile=$lab/slurmd.%n.pid
SlurmctldLogFile=$lab/log/slurmctld.log
SlurmdLogFile=$lab/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=60
KillWait=10
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
EOF
  [ "$gpus" -eq 0 ] || echo "GresTypes=gpu"
  for ((node = 1; node <= nodes; node++)); do
    echo "NodeName=node$node NodeHostname=head NodeAddr=$(address "$node") Port=$((6820 + node))" \
      "CPUs=$cores RealMemory=1000000 $([ "$gpus" -eq 0 ] || echo "Gres=gpu:fake:$gpus") State=UNKNOWN"
  done
  # A job of "urgent" takes the nodes of one of "main", which has 15 seconds to save, and goes back into the queue.
  echo "PartitionName=main Nodes=node[1-$nodes] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=15"
  echo "PartitionName=urgent Nodes=node[1-$nodes] MaxTime=INFINITE State=UP PriorityTier=10"
}

# A munged of each machine's own, in $1: one that serves all takes a credential that Slurm forwarded to
# several nodes for a replayed one.
munge() {
  mkdir -p "$1"
  cp "$lab/key" "$1/key"
  munged --key-file="$1/key" --socket="$lab/munge/socket" --pid-file="$1/pid" --log-file="$lab/log/munged.log" \
    --seed-file="$1/seed" --num-threads=1
}

# Slows the sends of a link.
slow() { tc qdisc add dev "$1" root tbf rate "$rate" burst 128kb latency 50ms; }

# Links node $1, whose first process is $2, with the switch.
link_node() {
  until [ "$(readlink "/proc/$2/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
  ip link add "link$1" type veth peer name eth0 netns "$2"
  ip link set "link$1" master switch up
  slow "link$1"
}

# Runs in the namespaces of node $1.
node() {
  hostname "$1"
  if [ -n "$rate" ]; then
    ip link set lo up
    until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
    ip addr add "$(address "${1#node}")/24" dev eth0
    ip link set eth0 up
    slow eth0
    # UCX looks there for interfaces: this network's. Slurm looks there for control groups: the machine's.
    mkdir "$lab/cgroup.$1"
    mount --rbind /sys/fs/cgroup "$lab/cgroup.$1"
    mount -t sysfs sysfs /sys
    mount --rbind "$lab/cgroup.$1" /sys/fs/cgroup
    mount -t tmpfs tmpfs /dev/shm
  fi
  mkdir -p "$lab/munge.$1"
  mount --bind "$lab/munge.$1" "$lab/munge"
  munge "$lab/munge"
  slurmd -N "$1"
}

start() {
  local number
  dd if=/dev/urandom of="$lab/key" bs=128 count=1 status=none
  chmod 600 "$lab/key"
  munge "$lab/munge"
  slurmctld
  for ((number = 1; number <= nodes; number++)); do
    # shellcheck disable=SC2086
    LOCKSTEP_CLUSTER_NODE=node$number unshare --uts --mount ${rate:+--net --ipc} "$0" --rate "$rate" &
    [ -z "$rate" ] || link_node "$number" $!
  done
  wait
}

is_up() { [ "$(sinfo --noheader --Node --partition main --format %T 2>/dev/null | grep -c '^idle$')" = "$nodes" ]; }

if [ -n "${LOCKSTEP_CLUSTER_NODE:-}" ]; then
  node "$LOCKSTEP_CLUSTER_NODE"
  exit
fi
network
gpu_files
configuration >"$SLURM_CONF"
start
for ((attempt = 0; attempt < 1200; attempt++)); do
  is_up && break
  sleep 0.1
done
if ! is_up; then
  echo "FAILED: the cluster is not up after 120 s"
  sinfo || true
  tail -n 20 "$lab"/log/*.log
  exit 1
fi
"$@" &  # not exec: process 1 must stay a shell, which reaps what the daemons leave
code=0
wait $! || code=$?
[ "$code" -eq 0 ] || tail -n 5 "$lab"/log/*.log
exit "$code"
