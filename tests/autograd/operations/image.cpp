#include <lockstep/autograd/functional.hpp>

#include "operations.hpp"

namespace lockstep::test {

Operations image_operations() {
  return {
      {"pad_constant",
       {{2, 3, 7, 6}},
       [](const Inputs& v) {
         return pad(v[0], {1, 2, 0, 3});
       }},
      {"pad_reflect",
       {{2, 3, 7, 6}},
       [](const Inputs& v) {
         return pad(v[0], {1, 2, 2, 3}, PadMode::reflect);
       }},
      {"pad_circular",
       {{2, 3, 4, 7, 6}},
       [](const Inputs& v) {
         return pad(v[0], {1, 2, 2, 3, 1, 1}, PadMode::circular);
       }},
      {"pad_replicate",
       {{2, 3, 4}},
       [](const Inputs& v) {
         return pad(v[0], {2, 3}, PadMode::replicate);
       }},
      {"pad_and_take_away",
       {{2, 3, 7, 6}},
       [](const Inputs& v) {
         return pad(v[0], {-1, 2, 3, -2}, PadMode::constant, 0.5);
       }},
      {"nearest",
       {{2, 3, 7, 6}},
       [](const Inputs& v) {
         return interpolate(v[0], {5, 13});
       }},
      {"nearest_doubled",
       {{2, 3, 7, 6}},
       [](const Inputs& v) { return interpolate_by(v[0], {2.0}); }},
      {"bilinear",
       {{2, 3, 7, 6}},
       [](const Inputs& v) { return interpolate_by(v[0], {2.0}, Interpolation::bilinear); }},
      {"bilinear_shrunk",
       {{2, 3, 7, 6}},
       [](const Inputs& v) {
         return interpolate(v[0], {5, 4}, Interpolation::bilinear, true);
       }},
      {"trilinear",
       {{2, 3, 4, 7, 6}},
       [](const Inputs& v) { return interpolate_by(v[0], 2.0, Interpolation::trilinear); }},
      {"bicubic",
       {{2, 3, 7, 6}},
       [](const Inputs& v) { return interpolate_by(v[0], 1.5, Interpolation::bicubic, true); }},
      {"bicubic_shrunk",
       {{2, 3, 7, 6}},
       [](const Inputs& v) {
         return interpolate(v[0], {5, 9}, Interpolation::bicubic);
       }},
      {"area",
       {{2, 3, 7, 6}},
       [](const Inputs& v) {
         return interpolate(v[0], {3, 4}, Interpolation::area);
       }},
      {"pixel_shuffle", {{2, 8, 3, 5}}, [](const Inputs& v) { return pixel_shuffle(v[0], 2); }},
      {"pixel_unshuffle", {{2, 2, 6, 9}}, [](const Inputs& v) { return pixel_unshuffle(v[0], 3); }},
      {"pools_of_sequences",
       {{2, 3, 12}},
       [](const Inputs& v) {
         return max_pool1d(v[0], {.kernel = 3, .stride = 2, .padding = 1}) +
                avg_pool1d(v[0], {.kernel = 3, .stride = 2, .padding = 1});
       }},
      {"pools_of_volumes",
       {{2, 3, 4, 6, 8}},
       [](const Inputs& v) { return max_pool3d(v[0], 2) + avg_pool3d(v[0], 2); }},
      {"pools_of_oblong_windows",
       {{2, 3, 9, 8}},
       [](const Inputs& v) {
         const PoolOptions<2> window{
             .kernel = {3, 4}, .stride = {2, 1}, .padding = {1, 2}, .ceil_mode = true};
         return max_pool2d(v[0], window) + avg_pool2d(v[0], window, false) +
                avg_pool2d(v[0], window, true, 5);
       }},
      {"adaptive_pools",
       {{2, 3, 7, 9}},
       [](const Inputs& v) {
         return adaptive_max_pool<2>(v[0], {3, 4}) + adaptive_avg_pool<2>(v[0], {3, 4});
       }},
      {"ctc_loss", {{12, 3, 6}}, [](const Inputs& v) {
         static const Tensor labels = Tensor::from(
                                 std::vector<std::int64_t>{1, 2, 2, 3, 4, 5, 1, 1, 2}, {3, 3}),
                             frames = Tensor::from(std::vector<std::int64_t>{12, 11, 8}, {3}),
                             lengths = Tensor::from(std::vector<std::int64_t>{3, 2, 0}, {3});
         return ctc_loss(v[0], labels, frames, lengths);
       }}};
}

}  // namespace lockstep::test
