#!/usr/bin/env bash
# shellcheck disable=SC2016  # the stand-ins expand what stands in single quotes
# scripts/setup.sh against stand-ins for dpkg-query, apt-get, sudo, id and cmake: it installs exactly
# what is missing, as root or with sudo; without either it says what is missing and lets CMake judge.
set -euo pipefail
unset LOCKSTEP_CMAKE_ARGS  # CI sets it
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
for tool in bash env sed awk sort comm dirname cat ninja; do ln -s "$(command -v "$tool")" "$work/bin/"; done

stand_in() {
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
# Everything is installed but these two.
stand_in dpkg-query 'for p in "${@:4}"; do case $p in mpich | gnuplot-nox) ;; *) echo "installed $p" ;; esac; done; exit 1'
stand_in apt-get 'echo "apt-get $*" >>"$CALLS"; exit "${APT_RESULT:-0}"'
stand_in sudo 'echo "sudo $*" >>"$CALLS"; case $SUDO_WORKS in yes) [ "$1" = -n ] || "$@" ;; no) exit 1 ;; esac'
stand_in id 'echo "$USER_ID"'
stand_in cmake 'echo "cmake $*" >>"$CALLS"; exit "$CMAKE_RESULT"'

# expect CODE PATTERN: the exit code, and a line of what it printed or called.
run() {
  : >"$work/calls"
  code=0
  env -i PATH="$work/bin" CALLS="$work/calls" USER_ID="$1" SUDO_WORKS="$2" CMAKE_RESULT="$3" APT_RESULT="${APT_RESULT:-0}" \
    LOCKSTEP_CMAKE_ARGS="${LOCKSTEP_CMAKE_ARGS:-}" \
    bash "$LOCKSTEP_SOURCE_DIR/scripts/setup.sh" "${@:4}" </dev/null >"$work/output" 2>&1 || code=$?
  printf '\n--- user %s, sudo works: %s, cmake exits %s: exit code %s\n' "$1" "$2" "$3" "$code"
  cat "$work/output" "$work/calls"
}
expect() { grep -qE -- "$1" "$work/output" "$work/calls" || { echo "FAILED: no line matches '$1'"; exit 1; }; }
expect_not() { ! grep -qE -- "$1" "$work/output" "$work/calls" || { echo "FAILED: a line matches '$1'"; exit 1; }; }
expect_code() { [ "$code" -eq "$1" ] || { echo "FAILED: expected exit code $1"; exit 1; }; }

run 0 no 0 release build data
expect_code 0
expect '^apt-get --quiet --yes install --no-install-recommends gnuplot-nox mpich$'
expect_not 'sudo'
expect '^cmake --preset release$'

run 0 no 0 release build
expect '^apt-get .* mpich$'
expect_not 'gnuplot'

run 0 no 0 release test
expect_code 0
expect_not 'apt-get'

run 1000 yes 0 release build
expect_code 0
expect '^sudo env .* apt-get .*install .* mpich$'

run 1000 no 0 release build data
expect_code 0
expect_not '^apt-get'
expect 'not installed, since you are neither root nor allowed to use sudo: gnuplot-nox mpich$'
expect 'apt-get install gnuplot-nox mpich$'
expect 'module avail'
expect 'spack install'
expect '^cmake --preset release$'

run 1000 no 1 release build
expect_code 1
expect 'CMake could not configure'
expect 'apt-get install mpich$'

run 0 no 1 release build
expect_code 1
expect 'CMake could not configure'
expect_not 'module avail'  # everything is installed: the error is another

# No network, or another system with apt.
APT_RESULT=100 run 0 no 0 release build
expect_code 0
expect 'not installed, since apt-get failed: mpich$'
expect 'module avail'
expect '^cmake --preset release$'

rm "$work/bin/dpkg-query"
LOCKSTEP_CMAKE_ARGS="-DLOCKSTEP_ARCH=x86-64-v3 -DX=1" run 1000 no 0 debug build
expect_code 0
expect 'no dpkg'
expect '^cmake --preset debug -DLOCKSTEP_ARCH=x86-64-v3 -DX=1$'

rm "$work/bin/ninja"
run 1000 no 0 release build
expect_code 1
expect 'ninja was not found'

run 0 no 0 release no_such_section
expect_code 2
