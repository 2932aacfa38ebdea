#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/shape.hpp>

namespace lockstep::train {

/// A data set of a file to be laid out.
struct PlannedArray {
  std::string name;  ///< groups in the path are created
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::string> class_names = {};  ///< attribute with that name; empty: none
  std::int64_t offset = 0;                    ///< offset in the file, set by lay_out
};

/// Makes an HDF5 file with room for these data sets, contiguous and unfilled, so that any number of
/// processes can write their elements with pwrite. Returns the bytes outside the elements: pieces
/// with offsets; the last piece ends the file. HDF5 accesses no file system. Throws Error.
struct FilePiece {
  std::int64_t offset = 0;
  std::string bytes;
};
[[nodiscard]] std::vector<FilePiece> lay_out(std::vector<PlannedArray>& arrays);

}  // namespace lockstep::train
