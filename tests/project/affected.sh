#!/usr/bin/env bash
# What .ci/affected.py says of a change, in a project of two libraries that is built here: upper.hpp includes lower.hpp,
# and each is compiled alone, too, by what is not built here. Test "low" runs a program of lower's, test "high" one of
# upper's that starts a program of a third library's.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{.ci,src/{lower,upper,third},tests/{lower,upper,golden},docs}
cp "$LOCKSTEP_SOURCE_DIR/.ci/affected.py" "$work/.ci/"
cd "$work"

cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.24)
project(Small LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)
include_directories(src)
add_library(lower STATIC src/lower/one.cpp src/lower/two.cpp)
set_target_properties(lower PROPERTIES UNITY_BUILD ON)
target_sources(lower PUBLIC FILE_SET HEADERS BASE_DIRS src FILES src/lower/lower.hpp)
enable_testing()
add_subdirectory(src/upper)
add_executable(low_test tests/lower/low_test.cpp)
target_link_libraries(low_test lower)
add_test(NAME low COMMAND env $<TARGET_FILE:low_test>)
add_executable(started src/third/started.cpp)
add_executable(high_test tests/upper/high_test.cpp)
target_link_libraries(high_test upper)
add_dependencies(high_test started)
add_test(NAME high COMMAND high_test)
add_test(NAME slow COMMAND high_test slow)
set_tests_properties(low high PROPERTIES LABELS quick)
END
echo 'add_library(upper STATIC upper.cpp)
target_sources(upper PUBLIC FILE_SET HEADERS BASE_DIRS .. FILES upper.hpp)
target_link_libraries(upper PUBLIC lower)' >src/upper/CMakeLists.txt
echo 'int lower();' >src/lower/lower.hpp
echo '#include <lower/lower.hpp>' >src/upper/upper.hpp
echo 'int only_here() { return 1; }' >src/lower/one.cpp
echo '#include <lower/lower.hpp>
int lower() { return 0; }' >src/lower/two.cpp
echo '#include <upper/upper.hpp>
int upper() { return lower(); }' >src/upper/upper.cpp
echo 'int main() {}' | tee src/third/started.cpp tests/lower/low_test.cpp tests/upper/high_test.cpp >docs/example.cpp
echo 1 >tests/golden/numbers
printf 'build/\n' >.gitignore
git init --quiet
git add .
git -c user.name=test -c user.email=test@example.org commit --quiet --message first
first=$(git rev-parse HEAD)
cmake -G Ninja -S . -B build >/dev/null
cmake --build build >/dev/null

# expect "TEST..." "SOURCE..." WHAT: of the tests labelled quick, and of the sources, what a change of WHAT reaches.
# The tree is put back afterwards.
expect() {
  local tests sources
  tests=$(.ci/affected.py "${commit:-$first}" build tests quick | cut -d' ' -f1 | sort | xargs)
  sources=$(.ci/affected.py "${commit:-$first}" build sources | sed "s|^.*/||" | sort | xargs)
  if [ "$tests" != "$1" ] || [ "$sources" != "$2" ]; then
    echo "FAILED: $3: tests '$tests' instead of '$1', sources '$sources' instead of '$2'"
    exit 1
  fi
  git checkout --quiet . && git clean --quiet --force -d
}
change() { echo '// changed' >>"$1"; }
everything='high_test.cpp low_test.cpp lower.hpp.cxx started.cpp unity_0_cxx.cxx upper.cpp upper.hpp.cxx'

expect "" "" "nothing"
change tests/lower/low_test.cpp
expect "low" "low_test.cpp" "a test"
change src/upper/upper.hpp
expect "high" "upper.cpp upper.hpp.cxx" "a header of the upper library"
change src/lower/lower.hpp
expect "high low" "lower.hpp.cxx unity_0_cxx.cxx upper.cpp upper.hpp.cxx" "a header of the lower library"
change src/lower/one.cpp
expect "high low" "unity_0_cxx.cxx" "a source that is compiled in a batch"
change src/third/started.cpp
expect "high" "started.cpp" "a program that a test starts"
change src/upper/CMakeLists.txt
expect "high" "upper.cpp upper.hpp.cxx" "how a library is built"
git rm --quiet src/upper/upper.hpp
expect "high" "upper.cpp upper.hpp.cxx" "a header that is gone"
git reset --quiet --hard
change src/upper/new.cpp
expect "high" "upper.cpp upper.hpp.cxx" "a new source"
change CMakeLists.txt
expect "high low" "$everything" "how everything is built"
change tests/golden/numbers
expect "high low" "$everything" "numbers that tests read"
change docs/example.cpp
change README.md
expect "" "" "documents"
commit=none
expect "high low" "$everything" "a commit that nobody knows"

unset commit
change tests/upper/high_test.cpp
[ "$(.ci/affected.py "$first" build tests quick)" = "high high_test" ] || { echo "FAILED: no target is named"; exit 1; }
git -c user.name=test -c user.email=test@example.org commit --quiet --all --message second
[ "$(.ci/affected.py "$first" build tests quick)" = "high high_test" ] || { echo "FAILED: a commit"; exit 1; }
[ -z "$(.ci/affected.py HEAD build tests quick)" ] || { echo "FAILED: a commit that was checked"; exit 1; }
if .ci/affected.py HEAD no_such_tree tests quick 2>/dev/null; then echo "FAILED: without a tree all is well"; exit 1; fi
echo "changed files reach what reads them"
