// Kokkos 4 and later: as ../../KokkosCore_config.h.
#include_next <desul/atomics/Config.hpp>

#undef DESUL_ATOMICS_ENABLE_OPENMP
#define DESUL_ATOMICS_ENABLE_CUDA
