#!/usr/bin/env bash
# The README's two commands need nothing but what they install themselves: a bare Debian 12 in a folder,
# a clone of what is committed here, scripts/quickstart.sh and scripts/test.sh in a chroot. Needs root,
# debootstrap and this machine's Debian mirror (apt's own configuration is asked for it). A quarter of
# an hour or more: it downloads every package, builds everything and runs every test.
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
chmod 755 "$root"  # packages' scripts become other users, who must reach what is in it
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
    mount --bind /sys "$0/sys"  # without it MPI complains on standard output
    for folder in shm pts; do
      mkdir -p "$0/dev/$folder"
      mount --bind "/dev/$folder" "$0/dev/$folder"
    done
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

inside /lockstep/scripts/test.sh >"$root/test.txt" 2>&1 || { code=$?; cat "$root/test.txt"; fail "test.sh ended with code $code"; }
# ctest's closing counts. What a chroot does not permit (namespaces) is skipped there, and named here.
sed -n '/tests passed/,$p' "$root/test.txt"
grep -q '^100% tests passed, 0 tests failed' "$root/test.txt" || fail "test.sh did not say that all tests passed"
echo "both commands of the README ended with code 0 on a bare Debian 12"
