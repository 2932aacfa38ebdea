# Lockstep::cuda_math: cuBLASLt, which computes matrix products, and cuDNN 9, which computes
# convolutions, if both are found; LOCKSTEP_CUDA_MATH_MISSING names the missing ones. For host code
# only. cuDNN comes apart from the toolkit, and so do the headers of its frontend, by which it computes
# attention: LOCKSTEP_CUDNN_FRONTEND_INCLUDE is false where they are missing, which is no error.
set(LOCKSTEP_CUDA_MATH_MISSING "")
find_package(CUDAToolkit 12 QUIET)
if(NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cudart)
  set(LOCKSTEP_CUDA_MATH_MISSING "a CUDA toolkit (12 or later) with cuBLASLt (cublasLt.h, libcublasLt.so): install it or set CUDAToolkit_ROOT")
  return()
endif()
find_path(LOCKSTEP_CUDNN_INCLUDE cudnn.h HINTS ${CUDNN_ROOT} ENV CUDNN_ROOT ${CUDAToolkit_INCLUDE_DIRS}
  PATH_SUFFIXES include)
find_library(LOCKSTEP_CUDNN_LIBRARY cudnn HINTS ${CUDNN_ROOT} ENV CUDNN_ROOT ${CUDAToolkit_LIBRARY_DIR}
  PATH_SUFFIXES lib lib64)
set(_major "")
if(LOCKSTEP_CUDNN_INCLUDE AND EXISTS ${LOCKSTEP_CUDNN_INCLUDE}/cudnn_version.h)
  file(STRINGS ${LOCKSTEP_CUDNN_INCLUDE}/cudnn_version.h _major REGEX "^#define CUDNN_MAJOR [0-9]+")
  string(REGEX REPLACE "[^0-9]" "" _major "${_major}")
endif()
if(NOT LOCKSTEP_CUDNN_LIBRARY OR NOT _major EQUAL 9)
  set(LOCKSTEP_CUDA_MATH_MISSING "cuDNN 9 (cudnn.h, cudnn_version.h, libcudnn.so): install it beside the CUDA toolkit or set CUDNN_ROOT")
  return()
endif()
add_library(lockstep_cuda_math INTERFACE)
add_library(Lockstep::cuda_math ALIAS lockstep_cuda_math)
target_include_directories(lockstep_cuda_math SYSTEM INTERFACE ${LOCKSTEP_CUDNN_INCLUDE})
target_link_libraries(lockstep_cuda_math INTERFACE ${LOCKSTEP_CUDNN_LIBRARY} CUDA::cublasLt CUDA::cudart)

# The frontend's headers call NVRTC, too.
find_path(LOCKSTEP_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
  HINTS ${CUDNN_FRONTEND_ROOT} ENV CUDNN_FRONTEND_ROOT ${LOCKSTEP_CUDNN_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
if(LOCKSTEP_CUDNN_FRONTEND_INCLUDE AND TARGET CUDA::nvrtc)
  target_include_directories(lockstep_cuda_math SYSTEM INTERFACE ${LOCKSTEP_CUDNN_FRONTEND_INCLUDE})
  target_link_libraries(lockstep_cuda_math INTERFACE CUDA::nvrtc)
else()
  message(STATUS "Attention on GPUs goes by products: for cuDNN's, set CUDNN_FRONTEND_ROOT to its frontend (cudnn_frontend.h)")
  set(LOCKSTEP_CUDNN_FRONTEND_INCLUDE "")
endif()
