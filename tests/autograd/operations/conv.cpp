#include <lockstep/autograd/functional/conv.hpp>

#include "operations.hpp"

namespace lockstep::test {

Operations conv_operations() {
  return {
      {"conv2d_1to10",
       {{16, 1, 28, 28}, {10, 1, 5, 5}, {10}},
       [](const Inputs& v) { return conv2d(v[0], v[1], v[2]); }},
      {"conv2d_10to20",
       {{16, 10, 12, 12}, {20, 10, 5, 5}, {20}},
       [](const Inputs& v) { return conv2d(v[0], v[1], v[2]); }},
      {"conv2d_groups",
       {{4, 32, 9, 9}, {32, 4, 3, 3}},
       [](const Inputs& v) {
         return conv2d(v[0], v[1], {}, {{2, 1}, {1, 1}, {1, 2}, 8});
       }},
      {"max_pool2d_2x2", {{8, 10, 24, 24}}, [](const Inputs& v) { return max_pool2d(v[0], 2); }},
      {"max_pool2d_3x3",
       {{8, 10, 24, 24}},
       [](const Inputs& v) { return max_pool2d(v[0], {.kernel = 3, .stride = 2, .padding = 1}); }},
      {"avg_pool2d",
       {{8, 10, 13, 13}},
       [](const Inputs& v) {
         return avg_pool2d(v[0], {.kernel = 3, .stride = 2, .padding = 1}, false);
       }},
      {"adaptive_avg_pool2d",
       {{8, 10, 7, 5}},
       [](const Inputs& v) { return adaptive_avg_pool2d(v[0], 1); }},
      {"conv2d_blocks",
       {{2, 64, 8, 8}, {64, 64, 3, 3}},
       [](const Inputs& v) {
         const Conv2dOptions same{{1, 1}, {1, 1}};
         const Variable y = conv2d(v[0], v[1], {}, same, Layout::channel_blocks);
         return from_channel_blocks(conv2d(y, v[1], {}, same, Layout::channel_blocks));
       }},
      {"conv2d_32to32", {{4, 32, 8, 8}, {32, 32, 3, 3}, {32}}, [](const Inputs& v) {
         return conv2d(v[0], v[1], v[2]);
       }}};
}

}  // namespace lockstep::test
