#include <fwd/Kokkos_Fwd_SERIAL.hpp>
// Behind the above, as CUDA's uses it.
#include <fwd/Kokkos_Fwd_CUDA.hpp>
