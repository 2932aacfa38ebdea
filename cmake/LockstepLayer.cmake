# lockstep_add_layer(NAME [FOR_SIZE] HEADERS file... SOURCES file... [KERNELS file...] [PUBLIC target...] [PRIVATE target...])
#
# One library a layer of src/lockstep/: target lockstep_NAME, alias Lockstep::NAME. Static
# libraries, or with BUILD_SHARED_LIBS shared ones, so that the common code of many programs exists
# once (scripts/gpu/bundle.sh).
#   HEADERS  public headers; installed, and each must compile on its own (VERIFY_INTERFACE_HEADER_SETS)
#   KERNELS  the sources that include Kokkos (tensor/view.hpp), no others (project.kernels_are_what_includes_kokkos): nvcc
#            compiles them with LOCKSTEP_ENABLE_CUDA
#  FOR_SIZE the layer only controls the work of others: -Os makes it half as large and compiles in
#  two thirds of the time
#  PUBLIC  libraries that the headers use   PRIVATE libraries that only the .cpp files use
# A layer without sources yet is not legal: every layer holds code.
# With LOCKSTEP_COMPILED_IN the layers that are linked with no MPI, and so cannot include it, are not compiled.
set(LOCKSTEP_COMPILED_IN "" CACHE PATH "A build tree for another MPI or NCCL that has compiled what knows neither")
set(lockstep_layers_without_mpi base deck tensor autograd nn optim)

function(lockstep_add_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FOR_SIZE" "" "HEADERS;SOURCES;KERNELS;PUBLIC;PRIVATE")
  set(target lockstep_${name})
  if(LOCKSTEP_COMPILED_IN AND name IN_LIST lockstep_layers_without_mpi)
    set(folder ${LOCKSTEP_COMPILED_IN}/src/lockstep/${name}/CMakeFiles/${target}.dir)
    file(GLOB_RECURSE objects CONFIGURE_DEPENDS ${folder}/*.o)
    add_library(${target} STATIC ${objects})
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    set(arg_KERNELS)
  else()
    lockstep_kernel_sources(${target} kernels ${arg_KERNELS})
    add_library(${target} ${arg_SOURCES} ${kernels})
    set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")  # precompiled headers know of none
  endif()
  add_library(Lockstep::${name} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${arg_HEADERS})
  target_link_libraries(${target}
    PUBLIC Lockstep::options ${arg_PUBLIC}
    PRIVATE Lockstep::warnings ${arg_PRIVATE})
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  set_target_properties(${target} PROPERTIES LOCKSTEP_FOR_SIZE "${arg_FOR_SIZE}")
  lockstep_unite(${target})
  if(NOT arg_KERNELS)
    lockstep_precompile(${target} std)
    target_compile_options(${target} PRIVATE ${LOCKSTEP_SHORT_CHECKS})
  elseif(NOT LOCKSTEP_ENABLE_CUDA)
    set_target_properties(${target} PROPERTIES LOCKSTEP_KERNELS ON)
    lockstep_precompile(${target} kokkos)
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_LAYERS ${target})
endfunction()
