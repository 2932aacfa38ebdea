#pragma once
#include <cstdint>
#include <filesystem>

namespace lockstep::heat {

/// Contents of a file of solutions.
struct FileOptions {
  std::filesystem::path file;
  std::int64_t train = 2000, test = 500;  ///< number of samples
  std::int64_t points = 16;               ///< points of the field in each direction
  double time = 0.05;                     ///< time of the field
  std::int64_t chunk = 0;  ///< rows in a compressed chunk; 0: uncompressed and contiguous
  std::uint64_t seed = 1;
  int step_dims =
      0;  ///< 2 or 3: pairs of fields one step of `time` apart, with this many dimensions
};

/// Writes groups train and test. Each has parameters f32 [N, 4] (x, y, width, diffusivity of the
/// source), field f32 [N, points, points] and peak f32 [N], the field's largest value. With
/// step_dims, each has state f32 [N, 2, points, ...] (a field and the material's conductivity) and
/// next f32 [N, 1, points, ...] (the field `time` later). Equal options give equal bytes in every
/// data set. The file appears whole or not at all. Throws Error; InputError if the file exists.
void write_file(const FileOptions& options);

}  // namespace lockstep::heat
