#!/usr/bin/env bash
# slow_link.sh MPIEXEC PROGRAM
#
# Runs PROGRAM under MPICH's MPIEXEC, one rank on each of two hosts, "near" and "far". Between them is one
# link, which carries 5 Gbit/s each way: PROGRAM gets the interface's name and that number. The hosts
# are namespaces (network, UTS, IPC, mount, each with a /dev/shm of its own) on this machine; when PROGRAM
# ends, or this script dies in any way, the kernel ends all of it.
# 77: not root, or no such namespaces here: the test that started this is skipped.
set -euo pipefail

export PATH=$PATH:/usr/sbin:/sbin
mpiexec=${1:-} program=${2:-}
gbits=5
slow=(root tbf rate "${gbits}gbit" burst 256k limit 4m)
on_far() { nsenter --target "$LOCKSTEP_FAR" --net --uts --ipc --mount "$@"; }

# mpiexec calls this instead of ssh: ... far "PROXY" OPTIONS...
if [ -n "${LOCKSTEP_FAR:-}" ]; then
  while [ "$1" != far ]; do shift; done
  shift
  on_far sh -c "$*"
  exit
fi

if [ -z "${LOCKSTEP_LINK_LAB:-}" ]; then
  skip() { echo "SKIPPED: $*"; exit 77; }
  [ "$(id -u)" = 0 ] || skip "hosts of one's own need root"
  for tool in ip tc; do
    command -v "$tool" >/dev/null || skip "$tool was not found (scripts/packages.txt, section test)"
  done
  isolated=(unshare --mount --pid --fork --kill-child --mount-proc --uts --net --ipc)
  "${isolated[@]}" sh -c 'mount -t sysfs sysfs /sys && ip link add lan type veth peer name other &&
    tc qdisc add dev lan "$@"' - "${slow[@]}" 2>/dev/null ||
    skip "this machine allows no namespaces with a slow link"
  # A job of Slurm may be what runs this test.
  for variable in ${!SLURM*} ${!PMI*}; do unset "$variable"; done
  LOCKSTEP_LINK_LAB=$(mktemp -d)
  export LOCKSTEP_LINK_LAB
  trap 'rm -rf "$LOCKSTEP_LINK_LAB"' EXIT
  code=0
  setpriv --pdeathsig KILL "${isolated[@]}" "$0" "$@" || code=$?
  exit "$code"
fi

# From here on this is process 1 of the namespaces, and the host near.
lab=$LOCKSTEP_LINK_LAB
mount -t sysfs sysfs /sys  # where UCX looks for interfaces: this network's
{ printf '192.0.2.1 near\n192.0.2.2 far\n' && cat /etc/hosts; } >"$lab/hosts"
mount --bind "$lab/hosts" /etc/hosts
hostname near
unshare --net --uts --ipc --mount sh -c "hostname far && mount -t sysfs sysfs /sys &&
  mount -t tmpfs tmpfs /dev/shm && touch $lab/far && exec sleep infinity" &
export LOCKSTEP_FAR=$!
wait_for() {
  local attempt
  for ((attempt = 0; attempt < 1200; attempt++)); do
    "$@" 2>/dev/null && return
    sleep 0.05
  done
  echo "FAILED: after 60 s there is still no: $*"
  exit 1
}
wait_for test -e "$lab/far"

ip link add lan type veth peer name lan netns "$LOCKSTEP_FAR"
ip addr add 192.0.2.1/24 dev lan
on_far ip addr add 192.0.2.2/24 dev lan
for host in env on_far; do
  "$host" ip link set lo up
  "$host" ip link set lan up
  "$host" tc qdisc add dev lan "${slow[@]}"
done
wait_for grep -qx up /sys/class/net/lan/operstate  # UCX takes no other
wait_for on_far grep -qx up /sys/class/net/lan/operstate

export UCX_TLS=tcp,self UCX_NET_DEVICES=lan
code=0
"$mpiexec" -launcher ssh -launcher-exec "$(realpath "$0")" -hosts near:1,far:1 -n 2 \
  "$program" lan "$gbits" || code=$?
[ "$code" -eq 0 ] || for host in env on_far; do "$host" tc -s qdisc show dev lan; done
exit "$code"
