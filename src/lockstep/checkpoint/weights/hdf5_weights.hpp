#pragma once
#include <filesystem>

#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// The data sets of any HDF5 file, as h5py makes them of a state_dict: the name is the path, groups
/// before it with a dot ("/layer1/0.weight" is "layer1.0.weight"). Numbers of 32 and 64 bits and
/// bytes as they are, other floating types as f64, other integers as i64. Throws CheckpointError
/// naming the file, and the data set that is no array of numbers.
[[nodiscard]] StateDict read_hdf5_weights(const std::filesystem::path& path);

}  // namespace lockstep
