#pragma once
#include <filesystem>

#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// The data sets of any HDF5 file, as h5py makes them from a state_dict. The name is the path, with
/// dots for groups ("/layer1/0.weight" is "layer1.0.weight"). Numbers of 32 and 64 bits and bytes
/// keep their types, other floating types become f64, other integers i64. Throws CheckpointError
/// naming the file, and a data set that is not an array of numbers.
[[nodiscard]] StateDict read_hdf5_weights(const std::filesystem::path& path);

}  // namespace lockstep
