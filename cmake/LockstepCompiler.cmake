# Compiler settings shared by every target, carried by two interface targets:
#   Lockstep::options   language level, -march, sanitizers (public: tests and apps need the same)
#  Lockstep::warnings warnings, for Lockstep's own sources only
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET default)
set(LOCKSTEP_SANITIZE "" CACHE STRING "Sanitizers for -fsanitize=, comma separated")

add_library(lockstep_options INTERFACE)
add_library(Lockstep::options ALIAS lockstep_options)
target_compile_features(lockstep_options INTERFACE cxx_std_20)
# CMake 3.25 does not know that nvcc supports C++20 (CUDA_STANDARD), hence the flag. Philox and
# std::numeric_limits are constexpr and run on the device too.
target_compile_options(lockstep_options INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20> $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>
  $<$<COMPILE_LANGUAGE:CUDA>:--diag-suppress=1835>)  # gnu::tls_model: for the host compiler, which heeds it

# lockstep_kernel_sources(TARGET OUT file...): these include Kokkos; OUT is the list of sources that
# the target compiles for them. With LOCKSTEP_ENABLE_CUDA nvcc compiles them and the host compiler
# everything else, which thus costs no more than without CUDA: in batches, as of a source alone two
# thirds of the time go to Kokkos' headers.
function(lockstep_kernel_sources target out)
  set(${out} ${ARGN} PARENT_SCOPE)
  if(NOT ARGN)
    return()
  endif()
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_KERNEL_SOURCES ${files})
  if(LOCKSTEP_ENABLE_CUDA AND NOT LOCKSTEP_UNITY)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA)
  elseif(LOCKSTEP_ENABLE_CUDA)
    set(batches)
    list(LENGTH files count)
    foreach(begin RANGE 0 ${count} 6)
      if(begin EQUAL count)
        break()
      endif()
      set(text)
      list(SUBLIST files ${begin} 6 together)
      foreach(file IN LISTS together)
        file(RELATIVE_PATH file ${CMAKE_CURRENT_BINARY_DIR} ${file})  # the same text in another clone, for ccache
        string(APPEND text "#include \"${file}\"\n")
      endforeach()
      set(batch ${CMAKE_CURRENT_BINARY_DIR}/${target}_kernels_${begin}.cu)
      file(CONFIGURE OUTPUT ${batch} CONTENT "${text}" @ONLY)
      list(APPEND batches ${batch})
    endforeach()
    set(${out} ${batches} PARENT_SCOPE)
  endif()
endfunction()

# lockstep_host_options(TARGET option...): options for the host compiler, including when nvcc calls
# it.
function(lockstep_host_options target)
  list(JOIN ARGN "," joined)
  target_compile_options(${target} INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${joined}>")
endfunction()

if(LOCKSTEP_ARCH)
  lockstep_host_options(lockstep_options -march=${LOCKSTEP_ARCH})
endif()
# Results stay IEEE: no -ffast-math. The first two only drop errno and the promise to raise FP flags;
# the third makes `#pragma omp simd` count, without OpenMP's threads.
lockstep_host_options(lockstep_options -fno-math-errno -fno-trapping-math -fopenmp-simd)
# For some processors (AMD's Zen 3) g++ fuses multiply and add in one loop and not in another,
# depending on the number of adjacent sums: a sample's bits would depend on how many are computed
# together. It collects its garbage only beyond 512 MB: a tenth less time for a batch, and 700
# instead of 590 MB at most.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  lockstep_host_options(lockstep_options --param=avoid-fma-max-bits=0 --param=ggc-min-heapsize=524288)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(lockstep_options INTERFACE $<IF:$<BOOL:$<TARGET_PROPERTY:LOCKSTEP_FOR_SIZE>>,-Os,-O3>)
endif()

# Compiles the target's sources together, in batches.
function(lockstep_unite target)
  if(LOCKSTEP_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
endfunction()

# lockstep_precompile(TARGET std|kokkos): precompiled headers of the standard library, or of Kokkos,
# shared by all targets with the same options: saves 2 of the 10 seconds of a batch.
function(lockstep_precompile target what)
  if(NOT LOCKSTEP_UNITY)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  get_target_property(for_size ${target} LOCKSTEP_FOR_SIZE)
  string(TOLOWER lockstep_precompiled_${what}_${type} alike)
  if(for_size)
    string(APPEND alike _for_size)
  endif()
  if(NOT TARGET ${alike})
    set(source ${PROJECT_BINARY_DIR}/generated/precompiled.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() { return 0; }\n")
    if(type STREQUAL "EXECUTABLE")  # -fPIE must agree
      add_executable(${alike} ${source})
    else()
      add_library(${alike} STATIC ${source})
    endif()
    set_target_properties(${alike} PROPERTIES LOCKSTEP_FOR_SIZE "${for_size}")
    target_link_libraries(${alike} PRIVATE Lockstep::options Lockstep::warnings)
    if(what STREQUAL kokkos)
      target_link_libraries(${alike} PRIVATE Lockstep::kokkos)
      set_target_properties(${alike} PROPERTIES LOCKSTEP_KERNELS ON)
      target_precompile_headers(${alike} PRIVATE <Kokkos_Core.hpp>)
    else()
      target_precompile_headers(${alike} PRIVATE <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable>
        <cstring> <filesystem> <fstream> <functional> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream>
        <string> <thread> <unordered_map> <vector>)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${alike})
endfunction()

if(LOCKSTEP_SANITIZE)
  # AddressSanitizer's kernels take half the time to compile with -O0 (arithmetic as long, norms a third), other code as
  # long. Under ThreadSanitizer tests of trainings take two to three times as long with it.
  set(_kernels_level -Og)
  if(LOCKSTEP_SANITIZE MATCHES "address")
    set(_kernels_level -O0)
  endif()
  target_compile_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all -g1 -UNDEBUG
    $<IF:$<BOOL:$<TARGET_PROPERTY:LOCKSTEP_KERNELS>>,${_kernels_level},-Og>
    # AddressSanitizer finds null and object-size. Of the time to compile: these two a fifth, the others 39 %,
    # a quarter alignment alone (src/ with g++ 12).
    -fno-sanitize=null,object-size,alignment,pointer-overflow,vptr
    -Wno-maybe-uninitialized)  # false with sanitizers; the release build has it
  target_link_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
  # For all but kernels: AddressSanitizer looks at an access by a call, a quarter less to compile, and slower to run.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(LOCKSTEP_SHORT_CHECKS --param=asan-instrumentation-with-call-threshold=0)
  endif()
endif()

# GNU's linker takes eight times as long for each of our programs. (lld 14 loses where functions end that g++ splits into
# likely and unlikely parts: what they throw ends the program.) A project that Lockstep is part of chooses its own.
if(PROJECT_IS_TOP_LEVEL AND NOT LOCKSTEP_ENABLE_CUDA)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=mold LOCKSTEP_HAS_MOLD)
  if(LOCKSTEP_HAS_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

# Designated initialisers leave out members on purpose.
add_library(lockstep_warnings INTERFACE)
add_library(Lockstep::warnings ALIAS lockstep_warnings)
set(_warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  -Wno-psabi -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms on std::string in g++ 12 (GCC bug 105651), the last two with its precompiled
  # header.
  list(APPEND _warnings -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
else()
  list(APPEND _warnings -Wno-pass-failed)  # clang: a remark on each `omp simd` loop left scalar
endif()
if(CMAKE_UNITY_BUILD OR LOCKSTEP_UNITY)  # sources that are included see one another's names
  list(APPEND _warnings -Wno-shadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND _warnings -Wno-subobject-linkage)
  endif()
endif()
if(LOCKSTEP_WARNINGS_AS_ERRORS)
  list(APPEND _warnings -Werror)
endif()
lockstep_host_options(lockstep_warnings ${_warnings})
