#pragma once
#include <string>

#include <lockstep/io/hdf5.hpp>

namespace lockstep {

/// Opens data set `name` of an open file. Throws InputError, naming the nearest name and the data
/// sets that the file has, if there is none. Under Hdf5Lock, as the next.
[[nodiscard]] Hdf5Handle open_data_set(Hdf5Id file, const std::string& name,
                                       const std::string& path);

/// Whether it is numpy's bool, as h5py writes it: an enumeration of bytes, FALSE = 0, TRUE = 1.
[[nodiscard]] bool is_boolean(Hdf5Id type);

/// "f32 [1000, 3]".
[[nodiscard]] std::string describe_data_set(Hdf5Id dataset);

}  // namespace lockstep
