#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/shape.hpp>

namespace lockstep::train {

/// A data set of a file that is to be laid out.
struct PlannedArray {
  std::string name;  ///< groups on the way are made
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::string> class_names = {};  ///< its attribute of that name; empty: none
  std::int64_t offset = 0;                    ///< in the file; lay_out sets it
};

/// Makes an HDF5 file with room for these data sets, contiguous and unfilled, so that any number of
/// processes may write their elements with pwrite. Returns its bytes but for the elements: pieces
/// and their offsets; the last piece ends the file. HDF5 sees no file system. Throws Error.
struct FilePiece {
  std::int64_t offset = 0;
  std::string bytes;
};
[[nodiscard]] std::vector<FilePiece> lay_out(std::vector<PlannedArray>& arrays);

}  // namespace lockstep::train
