#!/usr/bin/env bash
# scripts/setup.sh PRESET SECTION...
#
# Installs the missing packages of the named sections of scripts/packages.txt (apt, as root or with
# sudo) and configures build/PRESET. If it cannot install (a cluster, another system), it
# lists the missing packages and how to get them, and continues: CMake decides whether they are needed.
# Section test also puts the Python packages of scripts/python_packages.txt into build/python.
#   LOCKSTEP_CMAKE_ARGS  further arguments of the configuration, e.g. "-DLOCKSTEP_ARCH=x86-64-v3"
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

# The packages of the sections named in the arguments, one per line.
listed_packages() {
  awk -v wanted=" $* " '
    { sub(/#.*/, "") }
    /^\[/ { gsub(/[][ \t]/, ""); on = index(wanted, " " $0 " ") > 0; next }
    on && NF { print $1 }' scripts/packages.txt
}

# The packages in the arguments that dpkg does not have installed.
missing_packages() {
  local installed
  installed=$(dpkg-query --show --showformat '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p' || true)
  comm -23 <(printf '%s\n' "$@" | sort -u) <(printf '%s\n' "$installed" | sort -u)
}

how_to_get_them() {
  say "Three ways to get what is missing:"
  say "  apt      on Debian 12, as root:  apt-get install $*"
  say "  modules  on a cluster: 'module avail', then load a C++20 compiler, CMake 3.24, an MPI, parallel"
  say "           HDF5 built for that MPI, Kokkos, oneDNN and OpenBLAS, and run this again"
  say "  Spack    spack install ninja mpich hdf5+mpi kokkos onednn openblas tomlplusplus cli11 fmt spdlog"
  say "           nlohmann-json cereal xxhash zlib libpng libjpeg-turbo googletest benchmark, then 'spack load' them and run this again"
  say "More: docs/guide/install.md."
}

# Runs apt-get as root; fails if this user may not.
apt_get() {
  local -a become=()
  if [ "$(id -u)" -ne 0 ]; then
    become=(sudo)
  fi
  "${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes "$@"
}

may_install() {
  command -v apt-get >/dev/null || return 1
  [ "$(id -u)" -eq 0 ] && return 0
  command -v sudo >/dev/null || return 1
  # sudo cannot ask for a password without a terminal.
  if [ -t 0 ]; then sudo -v; else sudo -n true 2>/dev/null; fi
}

# For tests with other programs' readers; without them those tests are not there.
install_python_packages() {
  local wanted=scripts/python_packages.txt python=build/python
  [ "$(cat "$wanted")" != "$(cat "$python/installed.txt" 2>/dev/null || true)" ] || return 0
  say "installing the packages of $wanted into $python"
  if python3 -m venv "$python" &&
    "$python/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r "$wanted" >&2; then
    cat "$wanted" >"$python/installed.txt"
  else
    say "not installed: the tests that need them are left out"
  fi
}

if [ $# -lt 2 ]; then
  say "usage: scripts/setup.sh PRESET SECTION..."
  exit 2
fi
preset=$1
shift
mapfile -t packages < <(listed_packages "$@")
if [ ${#packages[@]} -eq 0 ]; then
  say "scripts/packages.txt has no packages in section $*"
  exit 2
fi

missing=("${packages[@]}")  # unless dpkg is here to check
if command -v dpkg-query >/dev/null; then
  mapfile -t missing < <(missing_packages "${packages[@]}")
  why="you are neither root nor allowed to use sudo"
  if [ ${#missing[@]} -gt 0 ] && may_install; then
    say "installing ${missing[*]}"
    if apt_get update && apt_get install --no-install-recommends "${missing[@]}"; then
      missing=()
    else
      why="apt-get failed"
    fi
  fi
  if [ ${#missing[@]} -gt 0 ]; then
    say "not installed, since $why: ${missing[*]}"
    how_to_get_them "${missing[@]}"
    say "Continuing, in case they come from elsewhere (modules, Spack)."
  fi
else
  say "this system has no dpkg: taking dependencies from the environment (modules, Spack)"
fi

if [[ " $* " == *" test "* ]]; then
  install_python_packages
fi

for tool in cmake ninja; do
  if ! command -v "$tool" >/dev/null; then
    say "$tool was not found on PATH."
    how_to_get_them "${missing[@]}"
    exit 1
  fi
done
read -r -a arguments <<<"${LOCKSTEP_CMAKE_ARGS:-}"
if ! cmake --preset "$preset" "${arguments[@]}" >&2; then
  say "CMake could not configure build/$preset; its first error above says why."
  if [ ${#missing[@]} -gt 0 ]; then
    how_to_get_them "${missing[@]}"
  fi
  exit 1
fi
