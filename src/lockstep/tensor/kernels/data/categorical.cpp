#include <lockstep/tensor/kernels/data/categorical.hpp>

#include <limits>
#include <string>

#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t no_category = -1;

std::string no_weights(const IndexCheck& /*check*/, std::int64_t row, std::int64_t /*drawn*/) {
  return "categories cannot be sampled from row " + std::to_string(row) +
         ": its weights are negative or not numbers, or their sum is not positive and finite";
}

/// In [0, 1).
KOKKOS_INLINE_FUNCTION double uniform_of(const Philox::Block& block) {
  const std::uint64_t bits = (std::uint64_t{block[0]} << 32U | block[1]) >> 11U;
  return static_cast<double>(bits) * 0x1p-53;
}

/// no_category for weights that cannot be sampled from.
template <class T>
KOKKOS_FUNCTION std::int64_t sample_row(const T* p, std::int64_t categories, double u) {
  double total = 0;
  bool valid = true;
  for (std::int64_t c = 0; c < categories; ++c) {
    total += static_cast<double>(p[c]);
    valid = valid && p[c] >= T{0};
  }
  if (!valid || !(total > 0.0) || total == std::numeric_limits<double>::infinity()) {
    return no_category;
  }
  const double threshold = u * total;
  double sum = 0;
  std::int64_t drawn = 0;  // the last possible class, in case rounding keeps the sum below
  for (std::int64_t c = 0; c < categories; ++c) {
    if (p[c] == T{0}) continue;
    drawn = c;
    sum += static_cast<double>(p[c]);
    if (threshold < sum) break;
  }
  return drawn;
}

template <class T, class Space>
void sample_kernel(const Space& space, const Tensor& p, std::int64_t categories,
                   const RandomKey& key, const Tensor& y) {
  const auto weights = flat_view<Space, const T>(p);
  const auto out = flat_view<Space, std::int64_t>(y);
  const Philox philox(key.seed);
  for_each(
      "lockstep::sample_categories", space, y.numel(), KOKKOS_LAMBDA(std::int64_t row) {
        const auto sample = static_cast<std::uint32_t>(key.first_sample + row);
        const auto block = philox(0, sample, key.step_now(), key.stream);
        out(row) = sample_row(weights.data() + row * categories, categories, uniform_of(block));
      });
}

}  // namespace

void sample_categories(const Tensor& p, const RandomKey& key, const Tensor& y) {
  const std::int64_t rows = y.numel(), categories = rows == 0 ? 0 : p.numel() / rows;
  if (y.dtype() != DType::i64 || rows * categories != p.numel()) {
    throw ShapeError("categories are sampled from p [..., C] into i64 [...], not from " +
                     describe(p) + " into " + describe(y));
  }
  dispatch(current_stream(p.device()), [&](const auto& space) {
    dispatch_floating(p.dtype(), "sample_categories",
                      [&]<class T>() { sample_kernel<T>(space, p, categories, key, y); });
  });
  const Tensor right = right_indices({.count = categories, .sentence = no_weights}, y, 0);
  if (y.device().type != DeviceType::host) y.copy_from(right);
}

}  // namespace lockstep
