#pragma once
#include <filesystem>

#include <lockstep/io/hdf5.hpp>

namespace lockstep {

/// Opens a file that may come from anywhere, for HDF5 to read it. HDF5's own driver takes locks,
/// which some parallel file systems refuse; and with it HDF5 1.10 crashes on a damaged file that
/// leads it to the address which stands for none. With this one it gets an error for whatever does
/// not lie in the file. Throws Error, FileError. Under Hdf5Lock.
[[nodiscard]] Hdf5Handle open_hdf5_for_reading(const std::filesystem::path& path);

}  // namespace lockstep
