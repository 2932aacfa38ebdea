#include <lockstep/tensor/finite.hpp>

#include <cstddef>
#include <cstring>

#include <lockstep/tensor/kernels/reduce/not_finite.hpp>

namespace lockstep {
namespace {

/// Infinities and NaNs have an exponent of all ones, and only those carry into the sign bit when
/// the lowest exponent bit is added. The loop has no branch and no comparison, so it vectorises.
template <class Bits>
bool exponents_are_finite(const void* data, std::int64_t count, int fraction_bits) noexcept {
  constexpr auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto last = static_cast<Bits>(Bits{1} << fraction_bits);
  const auto exponent = static_cast<Bits>(sign - last);
  const auto* at = static_cast<const std::byte*>(data);
  Bits carries = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, at + static_cast<std::size_t>(i) * sizeof bits, sizeof bits);
    carries = static_cast<Bits>(carries | static_cast<Bits>((bits & exponent) + last));
  }
  return (carries & sign) == 0;
}

}  // namespace

bool all_finite(const void* data, std::int64_t count, DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return exponents_are_finite<std::uint32_t>(data, count, 23);
    case DType::f64:
      return exponents_are_finite<std::uint64_t>(data, count, 52);
    case DType::bf16:
      return exponents_are_finite<std::uint16_t>(data, count, 7);
    case DType::f16:
      return exponents_are_finite<std::uint16_t>(data, count, 10);
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::boolean:
      return true;
  }
  return true;
}

bool all_finite(const Tensor& tensor) {
  if (tensor.device() == Device{}) return all_finite(tensor.data(), tensor.numel(), tensor.dtype());
  const Tensor found = Tensor::zeros({1}, DType::f32, tensor.device());
  find_not_finite(tensor, found);
  return found.to(Device{}).item() == 0.0;
}

}  // namespace lockstep
