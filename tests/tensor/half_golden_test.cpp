// amp.h5: rounding to the 16-bit types, to the bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <lockstep/tensor/half.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <support/golden_file.hpp>

namespace lockstep {
namespace {

std::vector<std::int64_t> whole(const test::GoldenFile& file, const std::string& name) {
  return file.tensor("rounding/" + name).to(DType::i64).to_vector<std::int64_t>();
}

/// The bits of every case, rounded one at a time and as a tensor.
template <class Half>
std::vector<std::vector<Half>> rounded(const std::vector<float>& numbers) {
  std::vector<Half> each;
  for (const float x : numbers) each.push_back(Half(x));
  const Tensor all = Tensor::from(numbers, {std::ssize(numbers)});
  return {each, all.to(dtype_of<Half>).template to_vector<Half>()};
}

TEST(Half, EveryGoldenCaseIsRoundedToTheBit) {
  const test::GoldenFile file("amp.h5");
  const auto bits = whole(file, "f32_bits"), bf16 = whole(file, "bf16_bits"),
             fp16 = whole(file, "fp16_bits"), back = whole(file, "fp16_back_to_f32_bits"),
             nan = whole(file, "is_nan");
  ASSERT_EQ(bits.size(), 4096U);
  std::vector<float> numbers;
  for (const std::int64_t b : bits)
    numbers.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(b)));
  const auto to_bf16 = rounded<BFloat16>(numbers);
  const auto to_fp16 = rounded<Float16>(numbers);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    for (std::size_t way = 0; way < 2; ++way) {
      const BFloat16 b = to_bf16[way][i];
      const Float16 h = to_fp16[way][i];
      if (nan[i] != 0) {
        EXPECT_TRUE(std::isnan(static_cast<float>(b)) && std::isnan(static_cast<float>(h))) << i;
        continue;
      }
      EXPECT_EQ(b.bits, bf16[i]) << bits[i];
      EXPECT_EQ(h.bits, fp16[i]) << bits[i];
      EXPECT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(h)), back[i]) << bits[i];
    }
  }
}

}  // namespace
}  // namespace lockstep
