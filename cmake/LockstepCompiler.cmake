# Compiler settings shared by every target, carried by two interface targets:
#   Lockstep::options   language level, -march, sanitizers (public: tests and apps need the same)
#   Lockstep::warnings  warnings, for our own sources only
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET default)
set(LOCKSTEP_SANITIZE "" CACHE STRING "Sanitizers for -fsanitize=, comma separated")

add_library(lockstep_options INTERFACE)
add_library(Lockstep::options ALIAS lockstep_options)
target_compile_features(lockstep_options INTERFACE cxx_std_20)

if(LOCKSTEP_ARCH)
  target_compile_options(lockstep_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=${LOCKSTEP_ARCH}>)
endif()
# Results stay IEEE: no -ffast-math. The first two only drop errno and the promise to raise FP flags;
# the third makes `#pragma omp simd` count, without OpenMP's threads.
target_compile_options(lockstep_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno -fno-trapping-math -fopenmp-simd>)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(lockstep_options INTERFACE -O3)
endif()

if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all -O1 -UNDEBUG)
  target_link_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()

# -Wrestrict: false alarms on std::string in g++ 12 (GCC bug 105651). Missing initialisers are what
# designated initialisers are for.
add_library(lockstep_warnings INTERFACE)
add_library(Lockstep::warnings ALIAS lockstep_warnings)
target_compile_options(lockstep_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  -Wno-psabi -Wno-missing-field-initializers -Wno-restrict $<$<BOOL:${LOCKSTEP_WARNINGS_AS_ERRORS}>:-Werror>>)
