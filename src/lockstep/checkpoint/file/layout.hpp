#pragma once
#include <lockstep/checkpoint/file/manifest.hpp>
#include <lockstep/io/hdf5_image.hpp>

namespace lockstep {

/// Builds the file of `manifest` in `image` with HDF5: all of its structure and none of its data.
/// Sets the offset of each data set or of its chunks, and reserves /manifest for the manifest's
/// text. Returns the header, still without the manifest's checksum. HDF5 never accesses the
/// checkpoint's file system. Throws Error.
[[nodiscard]] Header lay_out(Manifest& manifest, Hdf5Image& image);

}  // namespace lockstep
