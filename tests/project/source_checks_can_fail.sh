#!/usr/bin/env bash
# The checks of this folder find what they look for: each gets a tree with one thing wrong.
set -euo pipefail
here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LOCKSTEP_SOURCE_DIR=$work

mkdir -p "$work"/src/lockstep/{base,tensor,nn}
base=$work/src/lockstep/base/a.hpp nn=$work/src/lockstep/nn/b.hpp
reset() {
  printf '#pragma once\n#include <vector>\n' >"$base"
  printf '#pragma once\n#include <lockstep/base/a.hpp>\n' >"$nn"
  printf '%s\n' "$base" "$nn" >"$work/headers"
}
expect() {
  "$here/expect_exit.sh" "$1" "$2" "${@:3}" || { echo "FAILED: ${*:3}"; exit 1; }
}

reset
expect 0 '2 files, 2 includes, 0 violations' "$here/layering.sh" "$work"
expect 0 '2 public headers, 0 violations' "$here/public_headers.sh" "$work/headers"
expect 0 'none names' "$here/machine_paths.sh" "$work"

echo '#include <lockstep/nn/b.hpp>' >>"$base"
expect 1 'base/a.hpp:3: layer base must not use nn' "$here/layering.sh" "$work"
reset
echo '#include "c.hpp"' >>"$nn"
expect 1 'nn/b.hpp:3: #include "c.hpp"' "$here/layering.sh" "$work"
reset
mkdir "$work/src/lockstep/other" && cp "$nn" "$work/src/lockstep/other/"
expect 1 'other/b.hpp: no such layer' "$here/layering.sh" "$work"
rm -r "$work/src/lockstep/other"
mkdir -p "$work"/src/lockstep/comm/{engine,mpi}
echo '#include <lockstep/comm/engine/e.hpp>' >"$work/src/lockstep/comm/mpi/m.hpp"
echo '#include <lockstep/comm/mpi/m.hpp>' >"$work/src/lockstep/comm/engine/e.hpp"
expect 1 'comm/engine/e.hpp:1: engine of comm must not use mpi' "$here/layering.sh" "$work"
echo '#include <lockstep/comm/mpi/m.hpp>' >"$work/src/lockstep/comm/top.hpp"
expect 1 'comm/top.hpp:1: the interface of comm must not use mpi' "$here/layering.sh" "$work"
rm -r "$work/src/lockstep/comm"

for wrong in fmt/format.h mpi.h Kokkos_Core.hpp unistd.h lockstep/base/private.hpp; do
  reset
  echo "#include <$wrong>" >>"$base"
  expect 1 "base/a.hpp:3: .*$wrong|base/a.hpp:3: only" "$here/public_headers.sh" "$work/headers"
done
reset
view=$work/src/lockstep/tensor/view.hpp
printf '#pragma once\n#include <Kokkos_Core.hpp>\n' >"$view"
echo "$view" >>"$work/headers"
expect 0 '3 public headers, 0 violations' "$here/public_headers.sh" "$work/headers"
echo '#include <lockstep/tensor/view.hpp>' >>"$nn"
expect 1 'nn/b.hpp:3: .*brings Kokkos' "$here/public_headers.sh" "$work/headers"

kernel=$work/src/lockstep/tensor/k.cpp other=$work/src/lockstep/nn/n.cpp
echo '#include <lockstep/tensor/view.hpp>' >"$kernel"
echo "$kernel" >"$work/kernels"
expect 0 '1 kernels, 0 violations' "$here/kernels.sh" "$work/kernels" "$work"
echo '#include <lockstep/nn/b.hpp>' >"$other"
expect 1 'nn/n.cpp includes Kokkos .src/lockstep/nn/b.hpp.' "$here/kernels.sh" "$work/kernels" "$work"
reset
expect 0 '1 kernels, 0 violations' "$here/kernels.sh" "$work/kernels" "$work"
echo "$other" >>"$work/kernels"
expect 1 'nn/n.cpp is listed in KERNELS, but does not' "$here/kernels.sh" "$work/kernels" "$work"
echo "$kernel" >"$work/kernels"
echo '#include <fmt/core.h>' >>"$base"
echo '#include <lockstep/base/a.hpp>' >>"$kernel"
expect 1 'tensor/k.cpp includes fmt' "$here/kernels.sh" "$work/kernels" "$work"
: >"$work/kernels"
expect 1 '0 kernels' "$here/kernels.sh" "$work/kernels" "$work"
rm "$kernel" "$other" "$view"

reset
third=$work/src/lockstep/nn/c.hpp
printf '#pragma once\n#include <lockstep/nn/b.hpp>\nclass C;\n' >"$third"
printf '%s\n' "$third" >>"$work/headers"
expect 0 '3 public headers, 2 of them umbrellas, 2 the most that one reaches, 0 violations' "$here/header_reach.sh" "$work/headers"
expect 1 'nn/c.hpp reaches 2 headers, more than 1: .* -> lockstep/nn/b.hpp \(1\) -> lockstep/base/a.hpp \(0\)' \
  "$here/header_reach.sh" "$work/headers" 1
rm "$third"

reset
printf 'data = "/%s/somebody/data"\n' home >"$work/deck.toml"
expect 1 'deck.toml:1:' "$here/machine_paths.sh" "$work"
printf 'host = 192.168.%s\n' 7.9 >"$work/deck.toml"
expect 1 'deck.toml:1:' "$here/machine_paths.sh" "$work"

reset
echo 0 >"$work/0"
expect 1 'left by a command' "$here/machine_paths.sh" "$work"
rm "$work/0"

reset
printf 'namespace lockstep {\nclass A {\n};\nclass B;\n}  // namespace lockstep\n' >>"$base"
cp "$base" "$nn"
expect 1 'nn/b.hpp:4: lockstep::A is also defined in ./base/a.hpp:4' "$here/one_definition.sh" "$work"
sed -i 's/class A/class C/' "$nn"
expect 0 '2 classes, 0 defined twice' "$here/one_definition.sh" "$work"

mkdir -p "$work"/{benchmarks/tensor,docs}
: >"$work/README.md" && : >"$work/CONTRIBUTING.md" && : >"$work/benchmarks/tensor/a_bench.cpp"
list=$work/benchmarks/tensor/CMakeLists.txt
echo 'lockstep_add_benchmark(NAME tensor.a SOURCES a_bench.cpp)' >"$list"
echo 'build/release/benchmarks/tensor/tensor.a_bench' >"$work/docs/page.md"
expect 0 '1 sources, 1 names, 0 wrong' "$here/benchmarks.sh" "$work"
: >"$work/benchmarks/tensor/b_bench.cpp"
expect 1 'b_bench.cpp is not in benchmarks/tensor/CMakeLists.txt' "$here/benchmarks.sh" "$work"
echo 'lockstep_add_benchmark(NAME tensor.c SOURCES a_bench.cpp b_bench.cpp)' >"$list"
expect 1 'docs/page.md: no benchmark is called tensor.a_bench' "$here/benchmarks.sh" "$work"

mkdir -p "$work/docs/guide"
page=$work/docs/guide/page.md
words() { printf 'word %.0s' $(seq "$1"); }
# shellcheck disable=SC2016  # the backquotes are Markdown's
printf '# Title\n\n%sends.\n\n- %sends.\n- %sends.\n\n| %s |\n\n```\n%s\n```\n' "$(words 39)" "$(words 30)" "$(words 30)" "$(words 60)" \
  "$(words 60)" >"$page"
expect 0 '2 pages, 4 sentences, 0 of more than 40 words' "$here/sentences.sh" "$work"
printf '%s\n%sends.\n' "$(words 20)" "$(words 20)" >>"$page"
expect 1 'docs/guide/page.md:13: 41 words: word' "$here/sentences.sh" "$work"
rm -r "$work/docs" "$work/README.md"
expect 1 '0 pages' "$here/sentences.sh" "$work"

# Nothing to look at is a failure, not a pass.
rm -r "$work/benchmarks"/*
expect 1 '0 sources' "$here/benchmarks.sh" "$work"
rm -r "$work/src/lockstep"/* "$work/deck.toml"
expect 1 '0 files' "$here/layering.sh" "$work"
expect 1 '0 classes' "$here/one_definition.sh" "$work"
: >"$work/headers"
expect 1 '0 public headers' "$here/public_headers.sh" "$work/headers"
expect 1 '0 public headers' "$here/header_reach.sh" "$work/headers"

page=$here/../../docs/reference/coverage.md
# shellcheck disable=SC2016  # the page's own marks
sed 's/`nn::Conv1d`/`nn::Conv1x`/' "$page" >"$work/page.md"
expect 1 'nn::Conv1x is declared nowhere' "$here/coverage.sh" "$work/page.md"
expect 1 'the layer Conv1d is not on the page' "$here/coverage.sh" "$work/page.md"
sed 's/^| functional.fold | no | .*/| functional.fold | no | |/' "$page" >"$work/page.md"
expect 1 'functional.fold is .no. without a reason' "$here/coverage.sh" "$work/page.md"
