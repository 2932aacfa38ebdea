#!/usr/bin/env bash
# Installs the library, moves the installation, builds the project in install/ against it and runs it:
# its own MPI_Init, its own communicator, and not a byte of output that it did not write itself.
# Arguments: what starts it on 2 ranks, such as mpiexec -n 2.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$LOCKSTEP_BINARY_DIR/CMakeCache.txt")
configure() {
  cmake -S install -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" -DCMAKE_PREFIX_PATH="$work/moved" "$@"
}

cmake --install "$LOCKSTEP_BINARY_DIR" --prefix "$work/installed" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/installed" "$work/moved"
cereal=$(sed -n 's/^LOCKSTEP_CEREAL_INCLUDE:[A-Z]*=//p' "$LOCKSTEP_BINARY_DIR/CMakeCache.txt")
mkdir "$work/elsewhere"
cp -r "$cereal/cereal" "$work/elsewhere/"
configure -DLOCKSTEP_CEREAL_INCLUDE="$work/elsewhere"
cmake --build "$work/build"
grep -q -- "-isystem $work/elsewhere" "$work/build/build.ninja" || fail "cereal is not taken from where it is"

output=$("$@" "$work/build/simulation" 2>&1) || fail "simulation ended with code $?: $output"
[ "$output" = "learned after training on 2 ranks, error handler as before" ] || fail "simulation printed: $output"
output=$("$work/build/own_kernel" 2>&1) || fail "own_kernel ended with code $?: $output"
[ "$output" = "1 4 9" ] || fail "own_kernel printed: $output"

# A project of one's own, as docs/tutorials/03_from_one_rank_to_many.md tells to make it.
mkdir "$work/mine"
# shellcheck disable=SC2016  # backticks of Markdown
sed -n '/^```cmake$/,/^```$/{/^```/d;p}' ../../docs/tutorials/03_from_one_rank_to_many.md >"$work/mine/CMakeLists.txt"
cp ../../docs/examples/many_ranks.cpp "$work/mine/mine.cpp"
cmake -G Ninja -S "$work/mine" -B "$work/mine/build" -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER="$compiler"
cmake --build "$work/mine/build"
output=$("$@" "$work/mine/build/mine" 2>&1) || fail "mine ended with code $?: $output"
grep -q '^epoch 3  loss' <<<"$output" || fail "mine printed: $output"

# No header of a third-party library came along.
for private in fmt toml++ CLI hdf5 dnnl nlohmann spdlog; do
  ! grep -rlE "#include <$private" "$work/moved/include" || fail "a public header includes $private"
done
# Before 1.0 another minor version is another library.
file=$(find "$work/moved" -name LockstepConfigVersion.cmake)
version=$(sed -nE 's/.*PACKAGE_VERSION "([0-9]+\.[0-9]+)\..*/\1/p' "$file" | head -n 1)
configure -DWANTED_VERSION="$version" >/dev/null || fail "version $version was refused"
if configure -DWANTED_VERSION="${version%.*}.$((${version#*.} + 1))" >"$work/log" 2>&1; then
  fail "a newer minor version than $version was accepted"
fi
grep -q 'compatible with requested version' "$work/log" || { cat "$work/log"; fail "not refused for its version"; }
# Nor is an MPI of the other flavour, which the project found before, the one that this library talks to.
mkdir "$work/mpi"
grep -q '^LOCKSTEP_MPI:[A-Z]*=openmpi' "$LOCKSTEP_BINARY_DIR/CMakeCache.txt" || echo '#define OPEN_MPI 1' >"$work/mpi/mpi.h"
touch "$work/mpi/mpi.h"
if configure -DWANTED_VERSION="$version" -DEARLIER_MPI="$work/mpi" >"$work/log" 2>&1; then
  fail "an MPI of the other flavour was accepted"
fi
tr -s '\n ' ' ' <"$work/log" | grep -q "Lockstep was built for .* MPI::MPI_CXX is another .*$work/mpi/mpi.h" ||
  { cat "$work/log"; fail "not refused for its MPI"; }
echo "installed version $version, moved, found, built against and run"
