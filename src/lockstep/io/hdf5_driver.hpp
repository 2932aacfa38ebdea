#pragma once
// Internal: includes HDF5's header.
#include <hdf5.h>
#if H5_VERSION_GE(1, 13, 2)
#include <H5FDdevelop.h>
#endif

#include <algorithm>

#include <lockstep/io/hdf5.hpp>

namespace lockstep {

/// A virtual file driver of Lockstep's, without callbacks yet:
/// https://docs.hdfgroup.org/hdf5/v1_14/_v_f_l.html. HDF5 calls them under the Hdf5Lock of the
/// file's user. `number` identifies the driver.
inline H5FD_class_t private_hdf5_driver(const char* name, [[maybe_unused]] int number,
                                        H5F_close_degree_t degree) {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 2)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(600 + number);  // of the range for private drivers
#endif
  driver.name = name;
  driver.maxaddr = static_cast<haddr_t>(INT64_MAX);
  driver.fc_degree = degree;
  std::ranges::fill(driver.fl_map, H5FD_MEM_DEFAULT);
  return driver;
}

/// Files opened with `access` use the driver, which gets `info`.
inline void use_driver(const Hdf5Handle& access, const H5FD_class_t& driver, const void* info) {
  // Registered anew each time: HDF5 forgets its drivers in MPI_Finalize, and an identifier kept
  // here would outlive them. The access list and the file keep it registered while they need it.
  const Hdf5Handle registered(H5FDregister(&driver), H5FDunregister, "register a file driver");
  hdf5_check(H5Pset_driver(access.id(), registered.id(), info), "set a file driver");
}

}  // namespace lockstep
