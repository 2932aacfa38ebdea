#pragma once
#include <lockstep/checkpoint/manifest.hpp>
#include <lockstep/io/file.hpp>

namespace lockstep {

/// An HDF5 file as HDF5 lays it out: all of its structure, none of its data.
struct Skeleton {
  File image;  ///< sparse, without a name: data sets take no room
  Header header;
};

/// Lets HDF5 make the file of `manifest` in the node's memory, sets each data set's offset, and
/// reserves /manifest for the manifest's text. HDF5 never sees the checkpoint's file system: there
/// it would take locks, and keep files that it cannot close once a disk is full. Throws Error.
[[nodiscard]] Skeleton lay_out(Manifest& manifest);

}  // namespace lockstep
