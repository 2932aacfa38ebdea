// How threads of a GPU share out elements, one after the other on the host.
#include <lockstep/tensor/kernels/element_strips.hpp>

#include <gtest/gtest.h>

#include <cstdint>

#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

template <class T>
struct Sum {
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    return static_cast<T>(static_cast<SumOf<T>>(a) + static_cast<SumOf<T>>(b));
  }
};

template <class Strip>
void run(const Strip& strip) {
  for (std::int64_t thread = 0; thread < strip.threads(); ++thread) strip(thread);
}

/// out = a + out, so that an element that is computed twice is wrong. The `offset` elements before
/// them, and one behind, belong to others.
template <class T, template <class...> class StripOf>
void expect_sums(std::int64_t n, std::int64_t offset) {
  SCOPED_TRACE(testing::Message() << n << " elements from element " << offset << " on");
  const Tensor a = Tensor::full({offset + n}, 1, dtype_of<T>),
               out = Tensor::full({offset + n + 1}, 2, dtype_of<T>);
  const Tensor of_a = a.slice(offset, offset + n), of_out = out.slice(offset, offset + n);
  const auto in = flat_view<HostExecutionSpace, const T>(of_a);
  const auto to = flat_view<HostExecutionSpace, T>(of_out);
  const StripOf<decltype(to), Sum<T>, decltype(in), decltype(to)> strip{n, to, {}, {in, to}};
  if constexpr (requires { strip.fits(); }) {
    EXPECT_TRUE(strip.fits());
  }
  run(strip);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const bool is_own = i >= offset && i < offset + n;
    EXPECT_EQ(static_cast<float>(static_cast<const T*>(out.data())[i]), is_own ? 3.0F : 2.0F) << i;
  }
}

TEST(ElementStrips, ComputeEachElementOnce) {
  for (const std::int64_t n : {0, 1, 7, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1000}) {
    for (const std::int64_t offset : {0, 3}) {
      expect_sums<float, detail::Strip>(n, offset);
      expect_sums<double, detail::Strip>(n, offset);
      expect_sums<BFloat16, detail::Strip>(n, offset);
    }
  }
}

TEST(ElementStrips, ComputeEachElementOfPacksOnce) {
  for (const std::int64_t n : {0, 1, 7, 8, 9, 255, 256, 257, 263, 511, 512, 513, 519, 520, 2000}) {
    for (const std::int64_t offset : {0, 8}) {
      expect_sums<BFloat16, detail::PackStrip>(n, offset);
      expect_sums<Float16, detail::PackStrip>(n, offset);
    }
  }
}

}  // namespace
}  // namespace lockstep
