// Stands before the installed Kokkos' own headers and takes their configuration, but with CUDA.
// Kokkos' headers for CUDA are installed with it, whether its library knows CUDA or not: what
// includes them can be compiled, and not be linked.
#include_next <KokkosCore_config.h>

#undef KOKKOS_ENABLE_OPENMP
#undef KOKKOS_ENABLE_THREADS
#undef KOKKOS_ENABLE_SERIAL
#define KOKKOS_ENABLE_SERIAL
#define KOKKOS_ENABLE_CUDA
#define KOKKOS_ENABLE_CUDA_LAMBDA
#define KOKKOS_ENABLE_CUDA_CONSTEXPR
#define KOKKOS_ARCH_HOPPER
#define KOKKOS_ARCH_HOPPER90

// Left out: its half_t does not compile with CUDA 13, and no kernel uses it.
#if KOKKOS_VERSION < 40000
#define KOKKOS_CUDA_HALF_HPP_
#endif
