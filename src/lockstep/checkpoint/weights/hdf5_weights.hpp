#pragma once
#include <filesystem>

#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// The data sets of any HDF5 file, as h5py makes them from a state_dict. The name is the path, with
/// dots for groups ("/layer1/0.weight" is "layer1.0.weight"). A data set is a tensor of its own
/// under each name that leads to it, by hard and soft links, except on a way through a group twice.
/// Numbers of 32 and 64 bits, bytes and h5py's bools keep their types, other floating types become
/// f64, other integers i64. Throws CheckpointError naming the file, and a data set that is not an
/// array of these or has no shape, or a link that leads to another file or to nothing.
[[nodiscard]] StateDict read_hdf5_weights(const std::filesystem::path& path);

}  // namespace lockstep
