#pragma once
#include <filesystem>

#include <lockstep/io/hdf5.hpp>

namespace lockstep {

/// Opens a file from any source for reading by HDF5. HDF5's own driver takes locks, which some
/// parallel file systems refuse; and with it HDF5 1.10 crashes on a damaged file that refers to the
/// undefined address. With this driver HDF5 gets an error for any address outside the file. Throws
/// Error, FileError. Under Hdf5Lock.
[[nodiscard]] Hdf5Handle open_hdf5_for_reading(const std::filesystem::path& path);

}  // namespace lockstep
