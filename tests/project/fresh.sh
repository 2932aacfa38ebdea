#!/usr/bin/env bash
# scripts/packages.txt is all that Lockstep needs: a bare Debian 12 in a folder, a clone of what is
# committed here, scripts/quickstart.sh in a chroot. Needs root, debootstrap and this machine's Debian
# mirror (apt's own configuration is asked for it). Some minutes: it downloads every package.
set -euo pipefail

skip() {
  echo "SKIPPED: $*"
  exit 77
}
fail() {
  echo "FAILED: $*"
  exit 1
}
[ "$(id -u)" -eq 0 ] || skip "only root can debootstrap and chroot"
command -v debootstrap >/dev/null || skip "debootstrap is not installed (scripts/packages.txt, section development)"

# One line a repository of Debian 12 that apt uses here: URI SUITE.
mapfile -t sources < <(apt-get indextargets --format "\$(REPO_URI) \$(RELEASE)" 'Created-By: Packages' 'Component: main' |
  grep -E ' bookworm(-updates|-security)?$' | sort -u)
mirror=$(printf '%s\n' "${sources[@]}" | sed -n 's/ bookworm$//p' | head -n 1)
[ -n "$mirror" ] || skip "apt has no mirror of Debian 12 (bookworm) configured"

root=$(mktemp -d "${TMPDIR:-/var/tmp}/lockstep-fresh-XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase bookworm "$root" "$mirror" >"$root.log" 2>&1 || { tail -n 20 "$root.log"; fail debootstrap; }
rm -f "$root.log"

# The chroot reaches the network as this machine does.
printf 'deb %s main\n' "${sources[@]}" >"$root/etc/apt/sources.list"
apt-config dump | grep -E '^Acquire::(https?::(Proxy|CaInfo|Verify)|Retries)' >"$root/etc/apt/apt.conf.d/99host" || true
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
  [ ! -e "$file" ] || install -D -m 644 "$file" "$root$file"
done
git clone --quiet --no-hardlinks "$LOCKSTEP_SOURCE_DIR" "$root/lockstep"

# In a mount namespace of its own, so that nothing stays mounted whatever happens.
inside() {
  # shellcheck disable=SC2016  # $0 and $@ are the inner shell's
  unshare --mount --propagation private bash -c '
    set -e
    mount --bind /proc "$0/proc"
    mkdir -p "$0/dev/shm"
    mount --bind /dev/shm "$0/dev/shm"
    exec chroot "$0" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
      ${http_proxy+http_proxy="$http_proxy"} ${https_proxy+https_proxy="$https_proxy"} "$@"' "$root" "$@"
}
run=$root/lockstep/runs/quickstart

inside /lockstep/scripts/quickstart.sh || fail "quickstart ended with code $?"
grep -q '"completed": *true' "$run/summary.json" || fail "summary.json does not say completed"
head -c 1000 "$run/curves.svg" | grep -q '<svg' || fail "curves.svg is no picture"
compgen -G "$run/checkpoints/*.h5" >/dev/null || fail "no checkpoint"

before=$(stat -c %Y "$run/summary.json")
inside /lockstep/scripts/quickstart.sh >"$root/second.txt" 2>&1 || { cat "$root/second.txt"; fail "the second run"; }
grep -q 'complete already' "$root/second.txt" || { cat "$root/second.txt"; fail "the second run did not say that all is done"; }
! grep -q 'setup: installing' "$root/second.txt" || fail "the second run installed packages again"
[ "$before" = "$(stat -c %Y "$run/summary.json")" ] || fail "the second run trained again"
echo "quickstart on a bare Debian 12: trained, and a second call had nothing left to do"
