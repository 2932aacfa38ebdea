#pragma once
#include <string>

#include <lockstep/io/hdf5.hpp>

namespace lockstep {

/// Opens data set `name` of an open file. If there is none, throws InputError naming the nearest
/// name and the file's data sets. Under Hdf5Lock, as the next function.
[[nodiscard]] Hdf5Handle open_data_set(Hdf5Id file, const std::string& name,
                                       const std::string& path);

/// "f32 [1000, 3]".
[[nodiscard]] std::string describe_data_set(Hdf5Id dataset);

}  // namespace lockstep
