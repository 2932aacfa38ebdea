#include <decl/Kokkos_Declare_SERIAL.hpp>
// Behind the above, as CUDA's uses it.
#include <decl/Kokkos_Declare_CUDA.hpp>
