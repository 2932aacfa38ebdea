#pragma once
#include <cstdint>
#include <filesystem>

namespace lockstep::heat {

/// What a file of solutions holds.
struct FileOptions {
  std::filesystem::path file;
  std::int64_t train = 2000, test = 500;  ///< samples
  std::int64_t points = 16;               ///< of the field, in each direction
  double time = 0.05;                     ///< at which the field is taken
  std::int64_t chunk = 0;                 ///< rows of a compressed chunk; 0: in one piece
  std::uint64_t seed = 1;
  int step_dims = 0;  ///< 2 or 3: fields one step of `time` apart, in so many dimensions
};

/// Writes groups train and test, each with parameters f32 [N, 4] (x, y, width, diffusivity of the
/// source), field f32 [N, points, points] and peak f32 [N], the field's largest value; with
/// step_dims state f32 [N, 2, points, ...], a field and the conductivity of the material, and next
/// f32 [N, 1, points, ...], the field `time` later. The same
/// options give the same bytes in every data set. The file appears whole or not at all. Throws
/// Error; InputError if something of that name is there already.
void write_file(const FileOptions& options);

}  // namespace lockstep::heat
