#include <lockstep/tensor/finite.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <lockstep/tensor/half.hpp>

namespace lockstep {
namespace {

/// Every value of `special` at every place of a run of 67 elements is found, and nowhere else.
template <class T>
void expect_found(DType dtype, const std::vector<T>& special, const std::vector<T>& ordinary) {
  std::vector<T> elements(67);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = ordinary[i % ordinary.size()];
  const auto count = std::ssize(elements);
  EXPECT_TRUE(all_finite(elements.data(), count, dtype)) << name_of(dtype);
  for (const T value : special) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      auto with = elements;
      with[i] = value;
      EXPECT_FALSE(all_finite(with.data(), count, dtype)) << name_of(dtype) << " at " << i;
      EXPECT_TRUE(all_finite(with.data(), static_cast<std::int64_t>(i), dtype)) << "before " << i;
    }
  }
}

template <class T>
void expect_found_in_real(DType dtype) {
  using Limits = std::numeric_limits<T>;
  expect_found<T>(dtype,
                  {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN(),
                   Limits::infinity(), -Limits::infinity()},
                  {T{0}, -T{0}, T{1}, -T{3}, Limits::max(), Limits::lowest(), Limits::denorm_min(),
                   -Limits::min()});
}

TEST(AllFinite, FindsEveryInfinityAndNanAtEveryPlaceAndNoOtherNumber) {
  expect_found_in_real<float>(DType::f32);
  expect_found_in_real<double>(DType::f64);
  // Sign, exponent of ones, fraction: infinities and NaNs; then zeros, one, largest, smallest.
  expect_found<std::uint16_t>(DType::f16, {0x7c00, 0xfc00, 0x7c01, 0x7e00, 0xffff},
                              {0x0000, 0x8000, 0x3c00, 0x7bff, 0xfbff, 0x0001, 0x83ff});
  expect_found<std::uint16_t>(DType::bf16, {0x7f80, 0xff80, 0x7f81, 0x7fc0, 0xffff},
                              {0x0000, 0x8000, 0x3f80, 0x7f7f, 0xff7f, 0x0001, 0x807f});
}

TEST(AllFinite, IsFoundByADevice) {
  constexpr Device device{DeviceType::sim, 0};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const Tensor x = Tensor::full({10000}, 1.0, dtype, device);
    EXPECT_TRUE(all_finite(x)) << name_of(dtype);
    for (const std::int64_t at : {0, 4095, 4096, 9999}) {
      for (const double bad : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
        const Tensor with = x.clone();
        with.slice(at, at + 1).fill(bad);
        EXPECT_FALSE(all_finite(with)) << name_of(dtype) << " at " << at;
      }
    }
  }
  EXPECT_TRUE(all_finite(Tensor::full({3}, 255.0, DType::u8, device)));
}

TEST(AllFinite, IsTrueOfIntegersWhateverTheirBits) {
  const std::vector<std::uint8_t> ones(64, 0xff);
  for (const DType dtype : {DType::i32, DType::i64, DType::u8, DType::boolean})
    EXPECT_TRUE(all_finite(ones.data(), 8, dtype)) << name_of(dtype);
}

}  // namespace
}  // namespace lockstep
