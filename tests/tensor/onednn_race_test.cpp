// Built for ThreadSanitizer alone, which must report the race in it (CMakeLists.txt): oneDNN is not
// instrumented, and whatever is done to keep its own locks out of the reports must not hide what it
// does to our tensors.
#include <gtest/gtest.h>

#include <lockstep/tensor/kernels/conv/conv2d.hpp>
#include <thread>

namespace lockstep {
namespace {

TEST(OnednnRace, OfAConvolutionAndAWriteToItsInputIsReported) {
  const Tensor x = Tensor::zeros({1, 16, 8, 8}), weight = Tensor::zeros({16, 16, 3, 3});
  const Tensor y = Tensor::zeros({1, 16, 8, 8});
  std::thread reader([&] { conv2d_forward(x, weight, {}, {.padding = {1, 1}}, y); });
  std::thread writer([&] { static_cast<float*>(x.data())[100] = 1; });
  reader.join();
  writer.join();
}

}  // namespace
}  // namespace lockstep
