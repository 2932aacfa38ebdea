# lockstep_add_app(NAME source... [LINK target...])
#
# An application: build/<preset>/apps/NAME, installed to bin/. Links Lockstep::train and the targets
# in LINK, compiles for size, and adds apps/cpu_check.c, which prints a message on a node that lacks
# instructions of the build. apps/hangup.c restores SIGHUP's handling, which some libraries change
# when they are loaded.

include(CheckCSourceCompiles)

# The instruction sets that LOCKSTEP_ARCH enables, by their names in __builtin_cpu_supports. Check
# only instructions beyond plain x86-64.
function(lockstep_cpu_features out)
  set(flags "")
  if(LOCKSTEP_ARCH)
    set(flags -march=${LOCKSTEP_ARCH})
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${flags} -dM -E -x c++ /dev/null
    OUTPUT_VARIABLE macros RESULT_VARIABLE status ERROR_VARIABLE message)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "The compiler does not know LOCKSTEP_ARCH=${LOCKSTEP_ARCH}:\n${message}")
  endif()
  set(features "")
  foreach(name sse3 ssse3 sse4.1 sse4.2 popcnt avx avx2 fma bmi bmi2 avx512f avx512cd avx512bw avx512dq
      avx512vl avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512bitalg avx512vpopcntdq avx512bf16 gfni
      vpclmulqdq avx512fp16 avxvnni)
    string(TOUPPER ${name} macro)
    string(REPLACE "." "_" macro ${macro})
    if(macros MATCHES "#define __${macro}__ ")
      list(APPEND features ${name})
    endif()
  endforeach()
  foreach(name avx512fp16 avxvnni)  # which clang 14 can use, but not ask for
    if(name IN_LIST features)
      check_c_source_compiles("int main(void) { return __builtin_cpu_supports(\"${name}\"); }" LOCKSTEP_KNOWS_${name})
      if(NOT LOCKSTEP_KNOWS_${name})
        list(REMOVE_ITEM features ${name})
      endif()
    endif()
  endforeach()
  set(${out} "${features}" PARENT_SCOPE)
endfunction()

# Writes FOLDER/lockstep_cpu_features.h, which apps/cpu_check.c includes.
function(lockstep_write_cpu_features folder)
  list(TRANSFORM ARGN REPLACE "(.+)" "X(\"\\1\")" OUTPUT_VARIABLE features)
  list(JOIN features " " features)
  file(CONFIGURE OUTPUT ${folder}/lockstep_cpu_features.h @ONLY CONTENT
"#define LOCKSTEP_CPU_ARCH \"${LOCKSTEP_ARCH}\"
#define LOCKSTEP_CPU_FEATURES(X) ${features}
")
endfunction()

lockstep_cpu_features(features)
lockstep_write_cpu_features(${PROJECT_BINARY_DIR}/generated ${features})
add_library(lockstep_cpu_check OBJECT ${PROJECT_SOURCE_DIR}/apps/cpu_check.c)
target_include_directories(lockstep_cpu_check PRIVATE ${PROJECT_BINARY_DIR}/generated)
target_compile_options(lockstep_cpu_check PRIVATE -Wall -Wextra)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(lockstep_cpu_check PRIVATE -march=x86-64)
endif()

add_library(lockstep_hangup OBJECT ${PROJECT_SOURCE_DIR}/apps/hangup.c)
target_compile_options(lockstep_hangup PRIVATE -Wall -Wextra)

# Options that the parts of an application share with the layers: warnings, unity batches, and -Os,
# because an application only controls the work of others.
function(lockstep_compile_as_app target)
  target_link_libraries(${target} PRIVATE Lockstep::options Lockstep::warnings PUBLIC Lockstep::train)
  target_compile_options(${target} PRIVATE ${LOCKSTEP_SHORT_CHECKS})
  set_target_properties(${target} PROPERTIES LOCKSTEP_FOR_SIZE ON)
  lockstep_unite(${target})
  lockstep_precompile(${target} std)
endfunction()

function(lockstep_add_app name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK")
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS} $<TARGET_OBJECTS:lockstep_cpu_check>
    $<TARGET_OBJECTS:lockstep_hangup>)
  lockstep_compile_as_app(${name})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/apps
    INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ${name} RUNTIME)
endfunction()
