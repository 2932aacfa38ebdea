#pragma once
#include <cstddef>
#include <cstdint>

#include <lockstep/tensor/extents.hpp>

namespace lockstep {

/// Of a convolution over `dims` spatial dimensions.
template <std::size_t dims>
struct ConvOptions {
  Extents<dims> stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
};
using Conv1dOptions = ConvOptions<1>;
using Conv2dOptions = ConvOptions<2>;
using Conv3dOptions = ConvOptions<3>;

}  // namespace lockstep
