# lockstep_add_test(NAME layer.subject SOURCES file... [KERNELS file...] [PROGRAM name] [NP n...] [LINK target...]
#                   [LABELS label...] [SLOW pattern...] [TIMEOUT seconds] [ENVIRONMENT VAR=value...] [ARGS arg...] [GPU])
#
# One GoogleTest executable, NAME_test. Without NP: one CTest entry NAME, run directly
# (tests/support/main.cpp). With NP 1 2 4: one CTest entry a size, NAME.np1, NAME.np2 ..., each
# under mpiexec with our MPI main (tests/support/mpi_main.cpp: the failures of every rank are
# printed by rank 0, in rank order). Entries without NP and KERNELS that name the same PROGRAM share
# one executable, PROGRAM_test, and each runs the tests of its own sources: unity batches of twelve
# compile their common headers and templates once, and the program is linked once. KERNELS are
# sources that include Kokkos, as in lockstep_add_layer.
# GPU: its cases whose names end in "cuda" (tests/support/test_devices.hpp) need a GPU. In a build
# with CUDA they are an entry of their own, NAME.gpu. With NP all cases need one. See
# lockstep_add_gpu_test. PROCESSORS, TIMEOUT (default 300, four times as long with a sanitizer: it
# ends a hang, and is no claim about speed, on however busy a machine) and LABELS are set on every
# entry; a test that needs the launcher depends on the plain-MPI smoke test (fixture mpi), so that a
# broken launcher is told from a broken library. The label threads is added here, for ThreadSanitizer, to the quick tests of layers that
# start threads and to thread tests elsewhere, except tests labelled one_thread: without a second
# thread ThreadSanitizer finds nothing. It sees one process, so it runs 2 or 3 ranks of each. The
# label quick is dropped above 3 ranks if fewer ranks are run too, and at 2 if 3 are. Sanitizers leave out the
# cases that SLOW names: they take several seconds there, and what they run others show, too.
find_package(GTest REQUIRED)

# Compile options of tests and their libraries: like the applications, but without
# UndefinedBehaviorSanitizer, which is for the tested library and doubles the compile time, and with
# -Og, which compiles as fast as -O0: reference results are computed in a third to a tenth of the
# time. Tests that try kernels on every number use -O1, with AddressSanitizer's checks in place.
add_library(lockstep_test_code INTERFACE)
add_library(lockstep_test_options INTERFACE)
if(LOCKSTEP_SANITIZE MATCHES "undefined")
  target_compile_options(lockstep_test_options INTERFACE -fno-sanitize=undefined)
endif()
target_compile_options(lockstep_test_options INTERFACE
  "$<IF:$<BOOL:$<TARGET_PROPERTY:LOCKSTEP_KERNELS>>,-O1,-Og;${LOCKSTEP_SHORT_CHECKS}>")
target_link_libraries(lockstep_test_code INTERFACE
  Lockstep::options Lockstep::warnings lockstep_test_options)  # last: a later option overrides
function(lockstep_compile_as_test target)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE lockstep_test_code)
  lockstep_unite(${target})
endfunction()

# GoogleTest's header, compiled once for all tests (an executable, because they are: -fPIE must agree).
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/tests/precompiled.cpp CONTENT "int main() { return 0; }\n")
add_executable(lockstep_test_precompiled ${PROJECT_BINARY_DIR}/tests/precompiled.cpp)
target_link_libraries(lockstep_test_precompiled PRIVATE lockstep_test_code GTest::gtest)
target_precompile_headers(lockstep_test_precompiled PRIVATE <gtest/gtest.h>)

function(lockstep_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "GPU" "NAME;PROGRAM;TIMEOUT" "SOURCES;KERNELS;NP;LINK;LABELS;SLOW;ENVIRONMENT;ARGS")
  if(NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "lockstep_add_test: NAME and SOURCES are required")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(LOCKSTEP_SANITIZE)
    math(EXPR arg_TIMEOUT "4 * ${arg_TIMEOUT}")
    if(arg_SLOW)
      list(JOIN arg_SLOW ":" slow)
      list(APPEND arg_ENVIRONMENT "GTEST_FILTER=-${slow}")
    endif()
  endif()
  set(target ${arg_NAME}_test)
  if(arg_PROGRAM)
    if(arg_NP OR arg_KERNELS)
      message(FATAL_ERROR "lockstep_add_test: ${arg_NAME}: PROGRAM goes with neither NP nor KERNELS")
    endif()
    set(target ${arg_PROGRAM}_test)
    list(APPEND arg_ARGS ${arg_SOURCES})
  endif()
  # In one unit with its callers, the compiler would optimize its operator new away.
  set(allocation_counter ${arg_SOURCES})
  list(FILTER allocation_counter INCLUDE REGEX "allocation_counter\\.cpp$")
  set_source_files_properties(${allocation_counter} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(TARGET ${target})
    get_target_property(sources ${target} SOURCES)  # helpers of several entries are there once
    list(REMOVE_ITEM arg_SOURCES ${sources})
    target_sources(${target} PRIVATE ${arg_SOURCES})
  else()
    lockstep_kernel_sources(${target} kernels ${arg_KERNELS})
    add_executable(${target} ${arg_SOURCES} ${kernels})
    lockstep_compile_as_test(${target})
    if(arg_KERNELS)  # other options than the precompiled header's, and perhaps nvcc
      set_target_properties(${target} PROPERTIES LOCKSTEP_KERNELS ON)
      target_compile_options(${target} PRIVATE "SHELL:-include gtest/gtest.h")
    else()
      target_precompile_headers(${target} REUSE_FROM lockstep_test_precompiled)
    endif()
  endif()
  target_link_libraries(${target} PRIVATE GTest::gtest ${arg_LINK})
  if("quick" IN_LIST arg_LABELS AND NOT "one_thread" IN_LIST arg_LABELS
      AND arg_NAME MATCHES "^(base|tensor|comm|data|parallel|checkpoint|train)\\.|threads")
    set(threads threads)
  endif()
  if(arg_NP)
    target_link_libraries(${target} PRIVATE lockstep_test_mpi_main)
    set(few_ranks ${arg_NP})
    list(FILTER few_ranks INCLUDE REGEX "^[23]$")
    list(APPEND few_ranks none)
    list(GET few_ranks 0 np_of_threads)
    foreach(np IN LISTS arg_NP)
      set(test ${arg_NAME}.np${np})
      set(command ${MPIEXEC_EXECUTABLE} ${LOCKSTEP_MPIEXEC_FLAGS} ${MPIEXEC_NUMPROC_FLAG} ${np}
        $<TARGET_FILE:${target}> ${arg_ARGS})
      if(arg_GPU)
        lockstep_add_gpu_test(${test} ${np} ${command})
        continue()
      endif()
      set(labels ${arg_LABELS})
      if(np STREQUAL np_of_threads)
        list(APPEND labels ${threads})
      endif()
      if((np GREATER 3 AND NOT np_of_threads STREQUAL "none") OR (np EQUAL 2 AND 3 IN_LIST arg_NP))
        list(REMOVE_ITEM labels quick)
      endif()
      add_test(NAME ${test} COMMAND ${command})
      lockstep_set_ranks(${test} ${np})
      set_tests_properties(${test} PROPERTIES TIMEOUT ${arg_TIMEOUT}
        LABELS "${labels}" ENVIRONMENT "${LOCKSTEP_TEST_ENVIRONMENT};${arg_ENVIRONMENT}"
        FIXTURES_REQUIRED mpi)
    endforeach()
  else()
    target_link_libraries(${target} PRIVATE lockstep_test_main)
    add_test(NAME ${arg_NAME} COMMAND ${target} ${arg_ARGS})
    set_tests_properties(${arg_NAME} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS};${threads}"
      ENVIRONMENT "${LOCKSTEP_TEST_ENVIRONMENT};${arg_ENVIRONMENT}")
  endif()
  if(arg_GPU AND NOT arg_NP AND LOCKSTEP_ENABLE_CUDA)
    lockstep_add_gpu_test(${arg_NAME}.gpu 1 $<TARGET_FILE:${target}> --gtest_filter=*cuda)
  endif()
endfunction()

# lockstep_set_ranks(TEST NP): the entry's PROCESSORS, and its COST if it has more than two ranks.
# An entry that takes all places starts when nothing else runs, and then runs alone, whether its
# ranks compute or wait: so it takes three of the five places that scripts/test.sh gives two cores.
# CTest starts it early, because three places are rarely free while smaller entries are left.
cmake_host_system_information(RESULT LOCKSTEP_TEST_CORES QUERY NUMBER_OF_LOGICAL_CORES)
function(lockstep_set_ranks test np)
  math(EXPR most "${LOCKSTEP_TEST_CORES} + 1")
  set(places ${np})
  if(places GREATER most)
    set(places ${most})
  endif()
  set_tests_properties(${test} PROPERTIES PROCESSORS ${places})
  if(np GREATER 2)
    math(EXPR cost "500 + ${np}")
    set_tests_properties(${test} PROPERTIES COST ${cost})
  endif()
endfunction()

# lockstep_add_gpu_test(NAME PROCESSORS command...): a test with label gpu that exists only if ctest
# is run with LOCKSTEP_GPU=1 in its environment: ctest reads the file written here at each run.
function(lockstep_add_gpu_test name processors)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}.cmake)
  list(TRANSFORM ARGN REPLACE "(.+)" "[[\\1]]" OUTPUT_VARIABLE command)
  list(JOIN command " " command)
  file(GENERATE OUTPUT ${file} CONTENT
"if(\"\$ENV{LOCKSTEP_GPU}\" STREQUAL \"1\")
  add_test(${name} ${command})
  set_tests_properties(${name} PROPERTIES LABELS gpu TIMEOUT 300 PROCESSORS ${processors} RUN_SERIAL ON
    ENVIRONMENT [[${LOCKSTEP_TEST_ENVIRONMENT}]])
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
endfunction()

# The environment of every test. Ranks and threads exceed the cores: OpenMP's waiting threads sleep.
# OpenBLAS starts threads when it is loaded, before a program can say that it wants none, and they
# yield for 25 ms before they sleep: a fifth of the processors' time of tests that start ranks.
set(LOCKSTEP_TEST_ENVIRONMENT "OMP_WAIT_POLICY=passive" "OPENBLAS_NUM_THREADS=1"
  "LOCKSTEP_SOURCE_DIR=${PROJECT_SOURCE_DIR};LOCKSTEP_BINARY_DIR=${PROJECT_BINARY_DIR}"
  "LOCKSTEP_LAUNCHER=${MPIEXEC_EXECUTABLE} ${LOCKSTEP_MPIEXEC_FLAGS} ${MPIEXEC_NUMPROC_FLAG}")
if(LOCKSTEP_SANITIZE)
  # UCX's memory hooks crash under ThreadSanitizer. One OpenMP thread: ThreadSanitizer cannot see
  # OpenMP's synchronisation. hwloc's plugins, which Open MPI's packages install, leak memory that
  # has no symbols once they are unloaded.
  list(APPEND LOCKSTEP_TEST_ENVIRONMENT "UCX_MEM_EVENTS=n" "OMP_NUM_THREADS=1"
    "HWLOC_PLUGINS_PATH=/nonexistent"
    "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp")
endif()
