#include <lockstep/tensor/kernels/data/augment.hpp>

#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

// Separate augmentation from other users of the same seed: "CROP" and "FLIP" as last words.
constexpr std::uint32_t crop_stream = 0x43524F50, flip_stream = 0x464C4950;

void expect_images(const char* operation, const Tensor& x, const Tensor& indices) {
  if (x.dims() != 4 || indices.dims() != 1 || indices.size(0) != x.size(0)) {
    throw ShapeError(std::string(operation) + " takes images [n, C, H, W] and indices [n], not " +
                     describe(x) + " and " + describe(indices));
  }
}

KOKKOS_FUNCTION Philox::Block draw(const AugmentKey& key, std::int64_t sample,
                                   std::uint32_t stream) {
  const auto number = static_cast<std::uint64_t>(sample);
  return Philox(key.seed)(static_cast<std::uint32_t>(number),
                          static_cast<std::uint32_t>(number >> 32U), key.epoch, stream);
}

/// Uniform in [-padding, padding], with an error of 2^-32.
KOKKOS_FUNCTION std::int64_t shift_of(std::uint32_t word, std::int64_t padding) {
  const auto places = static_cast<std::uint64_t>(2 * padding + 1);
  return static_cast<std::int64_t>((word * places) >> 32U) - padding;
}

// Pixel (y, x) becomes pixel (y + down, x + right); pixels from outside are `fill`. The loops run
// in the order of an overlapping move: a pixel is read before it is overwritten.
template <class Space>
void random_crop_kernel(const Space& space, const Tensor& t, const Tensor& indices,
                        std::int64_t padding, const Tensor& fill, const AugmentKey& key) {
  const auto image = view<Space, float, 4>(t);
  const auto index = view<Space, const std::int64_t, 1>(indices);
  const auto outside = view<Space, const float, 1>(fill);
  const std::int64_t channels = t.size(1), height = t.size(2), width = t.size(3);
  for_each(
      "lockstep::random_crop", space, t.size(0) * channels, KOKKOS_LAMBDA(std::int64_t plane) {
        const std::int64_t n = plane / channels, c = plane % channels;
        const Philox::Block words = draw(key, index(n), crop_stream);
        const std::int64_t down = shift_of(words[0], padding), right = shift_of(words[1], padding);
        for (std::int64_t i = 0; i < height; ++i) {
          const std::int64_t y = down >= 0 ? i : height - 1 - i, from_y = y + down;
          const bool row_inside = from_y >= 0 && from_y < height;
          for (std::int64_t j = 0; j < width; ++j) {
            const std::int64_t x = right >= 0 ? j : width - 1 - j, from_x = x + right;
            image(n, c, y, x) = row_inside && from_x >= 0 && from_x < width
                                    ? image(n, c, from_y, from_x)
                                    : outside(c);
          }
        }
      });
}

template <class Space>
void random_horizontal_flip_kernel(const Space& space, const Tensor& t, const Tensor& indices,
                                   const AugmentKey& key) {
  const auto image = view<Space, float, 4>(t);
  const auto index = view<Space, const std::int64_t, 1>(indices);
  const std::int64_t channels = t.size(1), height = t.size(2), width = t.size(3);
  for_each(
      "lockstep::random_horizontal_flip", space, t.size(0) * channels,
      KOKKOS_LAMBDA(std::int64_t plane) {
        const std::int64_t n = plane / channels, c = plane % channels;
        if ((draw(key, index(n), flip_stream)[0] & 1U) == 0) return;
        for (std::int64_t y = 0; y < height; ++y) {
          for (std::int64_t x = 0; x < width / 2; ++x) {
            const float left = image(n, c, y, x);
            image(n, c, y, x) = image(n, c, y, width - 1 - x);
            image(n, c, y, width - 1 - x) = left;
          }
        }
      });
}

}  // namespace

void random_crop(const Tensor& x, const Tensor& indices, std::int64_t padding, const Tensor& fill,
                 const AugmentKey& key) {
  expect_images("random_crop", x, indices);
  if (fill.dims() != 1 || fill.size(0) != x.size(1) || padding < 0) {
    throw ShapeError("random_crop: padding by " + std::to_string(padding) + " pixels of " +
                     describe(fill) + " does not fit images " + describe(x));
  }
  if (x.numel() == 0) return;
  dispatch(current_stream(x.device()),
           [&](const auto& space) { random_crop_kernel(space, x, indices, padding, fill, key); });
}

void random_horizontal_flip(const Tensor& x, const Tensor& indices, const AugmentKey& key) {
  expect_images("random_horizontal_flip", x, indices);
  if (x.numel() == 0) return;
  dispatch(current_stream(x.device()),
           [&](const auto& space) { random_horizontal_flip_kernel(space, x, indices, key); });
}

}  // namespace lockstep
