#pragma once
#include <lockstep/checkpoint/file/manifest.hpp>
#include <lockstep/io/hdf5_image.hpp>

namespace lockstep {

/// Lets HDF5 make the file of `manifest` in `image`, all of its structure and none of its data;
/// sets each data set's offset, or its chunks', and reserves /manifest for the manifest's text.
/// Returns the header, still without the manifest's checksum. HDF5 never sees the checkpoint's file
/// system. Throws Error.
[[nodiscard]] Header lay_out(Manifest& manifest, Hdf5Image& image);

}  // namespace lockstep
