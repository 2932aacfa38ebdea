#!/usr/bin/env bash
# Runs the benchmarks as a suite, in about two minutes a round on two cores, and keeps every sample in one file for each machine.
#   benchmarks/run.sh                          three rounds of the working tree
#   benchmarks/run.sh --against COMMIT         five rounds of both, in turn; says which figures moved
#   benchmarks/run.sh --against FILE           the same machine's earlier results, kept by --output
#   benchmarks/run.sh --help                   all options
# Builds the benchmarks of the working tree in build/release, those of COMMIT in
# build/benchmarks-COMMIT (a git worktree, removed at the end). Needs python3 and no packages of it.
# A cluster: benchmarks/run.sh --launch 'srun --ntasks' --ranks 8.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
against=
for ((i = 1; i <= $#; ++i)); do
  case ${!i} in
    --against) i=$((i + 1)) && against=${!i-} ;;
    --against=*) against=${!i#*=} ;;
    -h | --help | --list) exec "$python" benchmarks/suite.py "$@" ;;
  esac
done

# build FOLDER: the benchmarks of the source tree in FOLDER. LOCKSTEP_CMAKE_ARGS as for scripts/setup.sh.
build() {
  local arguments
  read -r -a arguments <<<"${LOCKSTEP_CMAKE_ARGS-}"
  if [ ! -e "$1/build/release/CMakeCache.txt" ]; then
    (cd "$1" && cmake --preset release "${arguments[@]}") >/dev/null
  fi
  (cd "$1" && cmake --build --preset release --parallel "${JOBS:-$(nproc)}" --target benchmarks/all) >&2
}

build .
if [ -z "$against" ] || [ -f "$against" ]; then
  exec "$python" benchmarks/suite.py "$@"
fi

commit=$(git rev-parse --verify --quiet "$against^{commit}") || {
  echo "benchmarks/run.sh: '$against' is neither a file nor a commit of this repository." >&2
  exit 2
}
other=build/benchmarks-${commit:0:12}
trap 'git worktree remove --force "$other"' EXIT
git worktree prune
[ -e "$other/.git" ] || git worktree add --quiet --detach "$other" "$commit"
build "$other"
"$python" benchmarks/suite.py "$@" --other "$other"
