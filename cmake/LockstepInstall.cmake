# The installed library: one shared object with every layer in it, their public headers, and a CMake
# package. A program that links Lockstep::lockstep needs only MPI, whose communicators it passes,
# and cereal's headers; the other third-party libraries are linked into the shared object.
include(CMakePackageConfigHelpers)
get_property(layers GLOBAL PROPERTY LOCKSTEP_LAYERS)

# The target is not called lockstep: that is the utility in apps/.
add_library(lockstep_library SHARED)
add_library(Lockstep::lockstep ALIAS lockstep_library)
# comm/mpi_group.hpp takes an MPI_Comm; rpc/archive.hpp uses cereal, which is header-only.
target_link_libraries(lockstep_library PUBLIC MPI::MPI_CXX $<BUILD_INTERFACE:Lockstep::cereal>)
foreach(layer IN LISTS layers)
  # All objects of a layer, and the archive after them for the libraries it needs. (WHOLE_ARCHIVE
  # would work if the archives were not repeated on the link line: the layers depend on one
  # another.)
  target_sources(lockstep_library PRIVATE $<TARGET_OBJECTS:${layer}>)
  target_link_libraries(lockstep_library PRIVATE ${layer})
  get_target_property(headers ${layer} HEADER_SET)
  get_target_property(folder ${layer} SOURCE_DIR)
  list(TRANSFORM headers PREPEND ${folder}/ REGEX "^[^/]")
  target_sources(lockstep_library PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${headers})
endforeach()
target_compile_features(lockstep_library PUBLIC cxx_std_20)
set_target_properties(lockstep_library PROPERTIES
  EXPORT_NAME lockstep
  OUTPUT_NAME lockstep
  INSTALL_RPATH_USE_LINK_PATH ON
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

if(BUILD_SHARED_LIBS)
  return()  # layers that are shared themselves are for a build tree
endif()
install(TARGETS lockstep_library EXPORT lockstep_targets LIBRARY FILE_SET HEADERS)
set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
install(EXPORT lockstep_targets DESTINATION ${folder} NAMESPACE Lockstep:: FILE LockstepTargets.cmake)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/LockstepConfig.cmake.in
  ${PROJECT_BINARY_DIR}/LockstepConfig.cmake INSTALL_DESTINATION ${folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)  # before 1.0 a minor version may break
install(FILES ${PROJECT_BINARY_DIR}/LockstepConfig.cmake ${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake
  DESTINATION ${folder})
