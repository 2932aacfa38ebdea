#include <lockstep/tensor/kernels/data/categorical.hpp>

#include <cmath>
#include <string>

#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>

namespace lockstep {
namespace {

/// In [0, 1).
double uniform_of(const Philox::Block& block) {
  const std::uint64_t bits = (std::uint64_t{block[0]} << 32U | block[1]) >> 11U;
  return static_cast<double>(bits) * 0x1p-53;
}

template <class T>
std::int64_t sample_row(const T* p, std::int64_t categories, std::int64_t row, double u) {
  double total = 0;
  bool valid = true;
  for (std::int64_t c = 0; c < categories; ++c) {
    total += static_cast<double>(p[c]);
    valid = valid && p[c] >= T{0};
  }
  if (!valid || !(total > 0.0) || !std::isfinite(total)) {
    throw InputError("categories cannot be sampled from row " + std::to_string(row) +
                     ": its weights are negative or not numbers, or their sum is not positive and "
                     "finite");
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

}  // namespace

void sample_categories(const Tensor& p, const RandomKey& key, const Tensor& y) {
  const std::int64_t rows = y.numel(), categories = rows == 0 ? 0 : p.numel() / rows;
  if (y.dtype() != DType::i64 || rows * categories != p.numel()) {
    throw ShapeError("categories are sampled from p [..., C] into i64 [...], not from " +
                     describe(p) + " into " + describe(y));
  }
  dispatch_floating(p.dtype(), "sample_categories", [&]<class T>() {
    host_task(
        "sample_categories",
        [key, rows, categories](const HostArray& p, const HostArray& y) {
          const Philox philox(key.seed);
          const T* const weights = static_cast<const T*>(p.data());
          auto* const out = static_cast<std::int64_t*>(y.data());
          for (std::int64_t row = 0; row < rows; ++row) {
            const auto sample = static_cast<std::uint32_t>(key.first_sample + row);
            out[row] = sample_row(weights + row * categories, categories, row,
                                  uniform_of(philox(0, sample, key.step_now(), key.stream)));
          }
        },
        p, y);
  });
}

}  // namespace lockstep
