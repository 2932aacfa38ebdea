# Finds every dependency once and gives each a target with SYSTEM includes:
#   MPI::MPI_CXX  Lockstep::kokkos  Lockstep::hdf5  Lockstep::onednn  Lockstep::cblas  fmt::fmt
#   Lockstep::xxhash  Lockstep::cereal  ZLIB::ZLIB  Threads::Threads
# Header-only libraries (toml++, CLI11, spdlog, nlohmann_json) are included from single .cpp files.

# --- MPI: one choice picks wrapper, mpiexec and HDF5 flavour together -----------------------------
if(LOCKSTEP_MPI STREQUAL "mpich")
  set(_wrappers mpicxx.mpich)
  set(_launchers mpiexec.mpich mpiexec.hydra)
  set(_h5pcc h5pcc.mpich)
elseif(LOCKSTEP_MPI STREQUAL "openmpi")
  set(_wrappers mpicxx.openmpi)
  set(_launchers mpiexec.openmpi)
  set(_h5pcc h5pcc.openmpi)
else()
  message(FATAL_ERROR "LOCKSTEP_MPI is '${LOCKSTEP_MPI}'; it must be mpich or openmpi")
endif()
find_program(MPI_CXX_COMPILER NAMES ${_wrappers} mpicxx CC)
find_program(MPIEXEC_EXECUTABLE NAMES ${_launchers} mpiexec)
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI 3.1 REQUIRED COMPONENTS CXX)
set(_mpiexec_flags "")
if(LOCKSTEP_MPI STREQUAL "openmpi")
  set(_mpiexec_flags --oversubscribe --allow-run-as-root)
endif()
set(LOCKSTEP_MPIEXEC_FLAGS "${_mpiexec_flags}" CACHE INTERNAL "For more ranks than cores, and for root")

# --- parallel HDF5, built for the same MPI --------------------------------------------------------
set(HDF5_PREFER_PARALLEL ON)
# First where HDF5_ROOT says, as find_package would look.
find_program(HDF5_C_COMPILER_EXECUTABLE NAMES ${_h5pcc} h5pcc NAMES_PER_DIR
  HINTS ${HDF5_ROOT} ENV HDF5_ROOT PATH_SUFFIXES bin NO_DEFAULT_PATH)
find_program(HDF5_C_COMPILER_EXECUTABLE NAMES ${_h5pcc} h5pcc)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "HDF5 at ${HDF5_INCLUDE_DIRS} is serial. Install parallel HDF5 for ${LOCKSTEP_MPI} "
    "(Debian: libhdf5-${LOCKSTEP_MPI}-dev) or point HDF5_ROOT at one, and configure again with --fresh.")
endif()
foreach(_other mpich openmpi)
  if(NOT _other STREQUAL LOCKSTEP_MPI AND "${HDF5_C_LIBRARIES};${HDF5_INCLUDE_DIRS}" MATCHES "${_other}")
    message(FATAL_ERROR "HDF5 (${HDF5_C_LIBRARIES}) was built for ${_other}, but LOCKSTEP_MPI is ${LOCKSTEP_MPI}. "
      "Install libhdf5-${LOCKSTEP_MPI}-dev, point HDF5_ROOT at such a one or set LOCKSTEP_MPI=${_other}, and "
      "configure again with --fresh.")
  endif()
endforeach()
add_library(lockstep_hdf5 INTERFACE)
add_library(Lockstep::hdf5 ALIAS lockstep_hdf5)
target_include_directories(lockstep_hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})
target_link_libraries(lockstep_hdf5 INTERFACE ${HDF5_C_LIBRARIES} MPI::MPI_CXX)

# --- Kokkos: the config of Debian's Trilinos names an include folder that does not exist ----------
add_library(lockstep_kokkos INTERFACE)
add_library(Lockstep::kokkos ALIAS lockstep_kokkos)
find_package(Kokkos CONFIG QUIET)
if(TARGET Kokkos::kokkos AND NOT TARGET trilinos_kokkoscore)
  target_link_libraries(lockstep_kokkos INTERFACE Kokkos::kokkos)
  set(LOCKSTEP_KOKKOS_VERSION "${Kokkos_VERSION}")
else()
  find_path(LOCKSTEP_KOKKOS_INCLUDE Kokkos_Core.hpp PATH_SUFFIXES trilinos kokkos)
  find_library(LOCKSTEP_KOKKOS_LIBRARY NAMES kokkoscore trilinos_kokkoscore)
  if(NOT LOCKSTEP_KOKKOS_INCLUDE OR NOT LOCKSTEP_KOKKOS_LIBRARY)
    message(FATAL_ERROR "Kokkos not found. Install it (Debian: libtrilinos-kokkos-dev) or set Kokkos_ROOT.")
  endif()
  target_include_directories(lockstep_kokkos SYSTEM INTERFACE ${LOCKSTEP_KOKKOS_INCLUDE})
  target_link_libraries(lockstep_kokkos INTERFACE ${LOCKSTEP_KOKKOS_LIBRARY})
  set(LOCKSTEP_KOKKOS_VERSION "from Trilinos")
endif()
set(LOCKSTEP_KOKKOS_CONFIGURATION "" CACHE PATH
  "Headers that configure a Kokkos without CUDA to have it: kernels can then be compiled, and nothing be linked")
if(LOCKSTEP_ENABLE_CUDA)
  if(LOCKSTEP_KOKKOS_CONFIGURATION)
    target_include_directories(lockstep_kokkos BEFORE INTERFACE ${LOCKSTEP_KOKKOS_CONFIGURATION})
    target_compile_options(lockstep_kokkos INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda>)
    set(Kokkos_CUDA_ARCHITECTURES 90)
  elseif(NOT "CUDA" IN_LIST Kokkos_DEVICES OR NOT "SERIAL" IN_LIST Kokkos_DEVICES
      OR NOT Kokkos_COMPILE_LANGUAGE STREQUAL "CUDA")
    message(FATAL_ERROR "LOCKSTEP_ENABLE_CUDA needs a Kokkos configured with -DKokkos_ENABLE_CUDA=ON "
      "-DKokkos_ENABLE_SERIAL=ON -DKokkos_ENABLE_COMPILE_AS_CMAKE_LANGUAGE=ON: set Kokkos_ROOT to its install folder.")
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${Kokkos_CUDA_ARCHITECTURES})
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # one in a process, whatever else brings it
  enable_language(CUDA)

  # --- CUDA's math: host code only. cuDNN comes apart from the toolkit.
  find_package(CUDAToolkit 12 REQUIRED)
  find_path(LOCKSTEP_CUDNN_INCLUDE cudnn.h HINTS ${CUDNN_ROOT}/include ENV CUDNN_ROOT ${CUDAToolkit_INCLUDE_DIRS}
    PATH_SUFFIXES include)
  find_library(LOCKSTEP_CUDNN_LIBRARY cudnn HINTS ${CUDNN_ROOT}/lib ENV CUDNN_ROOT ${CUDAToolkit_LIBRARY_DIR}
    PATH_SUFFIXES lib lib64)
  if(NOT TARGET CUDA::cublasLt)
    message(FATAL_ERROR "LOCKSTEP_ENABLE_CUDA needs cuBLASLt, which computes matrix products: the CUDA toolkit in "
      "${CUDAToolkit_LIBRARY_DIR} has none. Install its cuBLAS (cublasLt.h, libcublasLt.so).")
  endif()
  set(_cudnn_major "")
  if(LOCKSTEP_CUDNN_INCLUDE AND EXISTS ${LOCKSTEP_CUDNN_INCLUDE}/cudnn_version.h)
    file(STRINGS ${LOCKSTEP_CUDNN_INCLUDE}/cudnn_version.h _cudnn_major REGEX "^#define CUDNN_MAJOR [0-9]+")
    string(REGEX REPLACE "[^0-9]" "" _cudnn_major "${_cudnn_major}")
  endif()
  if(NOT LOCKSTEP_CUDNN_LIBRARY OR NOT _cudnn_major EQUAL 9)
    message(FATAL_ERROR "LOCKSTEP_ENABLE_CUDA needs cuDNN 9 (cudnn.h, cudnn_version.h, libcudnn.so), which computes "
      "convolutions: install it beside the CUDA toolkit or set CUDNN_ROOT, and configure again with --fresh.")
  endif()
  add_library(lockstep_cuda_math INTERFACE)
  add_library(Lockstep::cuda_math ALIAS lockstep_cuda_math)
  target_include_directories(lockstep_cuda_math SYSTEM INTERFACE ${LOCKSTEP_CUDNN_INCLUDE})
  target_link_libraries(lockstep_cuda_math INTERFACE ${LOCKSTEP_CUDNN_LIBRARY} CUDA::cublasLt CUDA::cudart)
elseif("CUDA" IN_LIST Kokkos_DEVICES)
  message(FATAL_ERROR "The Kokkos in ${Kokkos_DIR} was built with CUDA: set LOCKSTEP_ENABLE_CUDA=ON (preset cuda), "
    "or point Kokkos_ROOT at one without.")
endif()

# --- NCCL: host code only, any C++ compiler ----------------------------------------------------------
if(LOCKSTEP_ENABLE_NCCL)
  find_package(CUDAToolkit 12 REQUIRED)
  find_path(LOCKSTEP_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_ROOT}/include)
  find_library(LOCKSTEP_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${NCCL_ROOT}/lib)
  if(NOT LOCKSTEP_NCCL_INCLUDE OR NOT LOCKSTEP_NCCL_LIBRARY)
    message(FATAL_ERROR "LOCKSTEP_ENABLE_NCCL needs NCCL: install it beside the CUDA toolkit or set NCCL_ROOT.")
  endif()
  add_library(lockstep_nccl INTERFACE)
  add_library(Lockstep::nccl ALIAS lockstep_nccl)
  target_include_directories(lockstep_nccl SYSTEM INTERFACE ${LOCKSTEP_NCCL_INCLUDE})
  target_link_libraries(lockstep_nccl INTERFACE ${LOCKSTEP_NCCL_LIBRARY} CUDA::cudart CUDA::cublas)
endif()

# --- host math ------------------------------------------------------------------------------------
# Debian's dnnl-config.cmake asks for OpenCL, which the CPU engine does not need: look for the files.
find_path(LOCKSTEP_ONEDNN_INCLUDE dnnl.hpp)
find_library(LOCKSTEP_ONEDNN_LIBRARY dnnl)
if(NOT LOCKSTEP_ONEDNN_INCLUDE OR NOT LOCKSTEP_ONEDNN_LIBRARY)
  message(FATAL_ERROR "oneDNN not found. Install it (Debian: libdnnl-dev).")
endif()
add_library(lockstep_onednn INTERFACE)
add_library(Lockstep::onednn ALIAS lockstep_onednn)
target_include_directories(lockstep_onednn SYSTEM INTERFACE ${LOCKSTEP_ONEDNN_INCLUDE})
target_link_libraries(lockstep_onednn INTERFACE ${LOCKSTEP_ONEDNN_LIBRARY})
find_path(LOCKSTEP_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas-pthread openblas)
find_library(LOCKSTEP_CBLAS_LIBRARY NAMES openblas cblas blas PATH_SUFFIXES openblas-pthread)
if(NOT LOCKSTEP_CBLAS_INCLUDE OR NOT LOCKSTEP_CBLAS_LIBRARY)
  message(FATAL_ERROR "No CBLAS found. Install one (Debian: libopenblas-dev).")
endif()
add_library(lockstep_cblas INTERFACE)
add_library(Lockstep::cblas ALIAS lockstep_cblas)
target_include_directories(lockstep_cblas SYSTEM INTERFACE ${LOCKSTEP_CBLAS_INCLUDE})
target_link_libraries(lockstep_cblas INTERFACE ${LOCKSTEP_CBLAS_LIBRARY})

# --- text, hashes, compression --------------------------------------------------------------------
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
find_path(LOCKSTEP_XXHASH_INCLUDE xxh3.h)
find_library(LOCKSTEP_XXHASH_LIBRARY xxhash)
find_path(LOCKSTEP_TOMLPP_INCLUDE toml++/toml.h)
find_path(LOCKSTEP_CLI11_INCLUDE CLI/CLI.hpp)
find_path(LOCKSTEP_JSON_INCLUDE nlohmann/json.hpp)
find_path(LOCKSTEP_CEREAL_INCLUDE cereal/cereal.hpp)
foreach(_pair XXHASH=libxxhash-dev TOMLPP=libtomlplusplus-dev CLI11=libcli11-dev JSON=nlohmann-json3-dev
        CEREAL=libcereal-dev)
  string(REPLACE "=" ";" _pair ${_pair})
  list(GET _pair 0 _name)
  list(GET _pair 1 _package)
  if(NOT LOCKSTEP_${_name}_INCLUDE)
    message(FATAL_ERROR "${_name}'s headers were not found (Debian: ${_package}).")
  endif()
endforeach()
add_library(lockstep_cereal INTERFACE)
add_library(Lockstep::cereal ALIAS lockstep_cereal)
target_include_directories(lockstep_cereal SYSTEM INTERFACE ${LOCKSTEP_CEREAL_INCLUDE})
add_library(lockstep_xxhash INTERFACE)
add_library(Lockstep::xxhash ALIAS lockstep_xxhash)
target_include_directories(lockstep_xxhash SYSTEM INTERFACE ${LOCKSTEP_XXHASH_INCLUDE})
target_link_libraries(lockstep_xxhash INTERFACE ${LOCKSTEP_XXHASH_LIBRARY})
