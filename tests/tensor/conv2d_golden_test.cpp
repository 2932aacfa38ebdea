// Both ways of computing a convolution against the reference, whichever conv2d.cpp would choose.
#include <support/golden_file.hpp>

#include <algorithm>

#include <lockstep/tensor/kernels/conv/conv2d_methods.hpp>

namespace lockstep::test {
namespace {

using detail::Conv2dProblem;

template <class T>
T* at(const Tensor& t) {
  return t.defined() ? static_cast<T*>(t.data()) : nullptr;
}

/// One way of computing a convolution, in one dtype.
template <class T>
struct Method {
  const char* name;
  void (*forward)(const Conv2dProblem&, const T*, const T*, const T*, T*);
  void (*backward_input)(const Conv2dProblem&, const T*, const T*, bool, T*);
  void (*backward_weight)(const Conv2dProblem&, const T*, const T*, bool, T*);
};

template <class T>
void check(const GoldenFile& file, const std::string& group, const Method<T>& method) {
  SCOPED_TRACE(group + " by " + method.name);
  const auto tensor = [&](const std::string& name) {
    return file.tensor(group + "/" + name).to(dtype_of<T>);
  };
  const auto pair = [&](const std::string& name) {
    const auto values = file.numbers(group, name);
    return std::array{static_cast<std::int64_t>(values.at(0)),
                      static_cast<std::int64_t>(values.at(1))};
  };
  const auto expect = [&](const Tensor& y, const std::string& reference, double times) {
    const std::string path = group + "/" + reference;
    const double bound = std::is_same_v<T, float>
                             ? file.tolerance(path)
                             : 1e-12 * std::max(1.0, file.number(path, "ref_max_abs"));
    const Tensor expected = file.tensor(path).clone();
    auto values = expected.to_vector<double>();
    for (double& value : values) value *= times;
    expected.copy_from_host<double>(values);
    EXPECT_LE(max_difference(y, expected), bound * times) << path << " times " << times;
  };

  const Conv2dOptions options{pair("stride"), pair("padding"), pair("dilation"),
                              static_cast<std::int64_t>(file.number(group, "groups"))};
  const Tensor x = tensor("x"), weight = tensor("weight"), grad_y = tensor("grad_out");
  const Tensor bias = file.has(group + "/bias") ? tensor("bias") : Tensor();
  ASSERT_EQ(conv2d_shape(x, weight, bias, options), grad_y.shape());
  const auto problem = Conv2dProblem::of(x, weight, grad_y, options);

  const Tensor y = Tensor::empty(grad_y.shape(), dtype_of<T>);
  method.forward(problem, at<T>(x), at<T>(weight), at<T>(bias), at<T>(y));
  expect(y, "out_f64", 1);
  const Tensor grad_x = Tensor::full(x.shape(), 1e30, dtype_of<T>);  // must be overwritten
  const Tensor grad_weight = Tensor::full(weight.shape(), 1e30, dtype_of<T>);
  for (const int times : {1, 2}) {  // the second time added to the first
    method.backward_input(problem, at<T>(grad_y), at<T>(weight), times == 2, at<T>(grad_x));
    expect(grad_x, "grad_x_f64", times);
    method.backward_weight(problem, at<T>(grad_y), at<T>(x), times == 2, at<T>(grad_weight));
    expect(grad_weight, "grad_weight_f64", times);
  }
}

TEST(Conv2dGolden, EveryMethodAgreesOnEveryCase) {
  const Method<float> onednn{"oneDNN", detail::onednn::forward, detail::onednn::backward_input,
                             detail::onednn::backward_weight};
  const Method<float> im2col{"im2col in f32", detail::im2col::forward<float>,
                             detail::im2col::backward_input<float>,
                             detail::im2col::backward_weight<float>};
  const Method<double> exact{"im2col in f64", detail::im2col::forward<double>,
                             detail::im2col::backward_input<double>,
                             detail::im2col::backward_weight<double>};
  const GoldenFile file("ops.h5");
  int cases = 0;
  for (const auto& group : file.groups("")) {
    if (file.text(group, "op") != "conv2d") continue;
    check(file, group, onednn);
    check(file, group, im2col);
    check(file, group, exact);
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

// Plans are kept by shape: more shapes than there are places must not mix them up.
TEST(OneDnnPlans, AreRemadeWhenTheCacheIsFull) {
  for (const int round : {0, 1}) {
    for (std::int64_t size = 5; size < 75; ++size) {
      const Tensor x = Tensor::full({1, 1, size, 5}, 1), weight = Tensor::full({1, 1, 5, 5}, 1);
      const Tensor y = Tensor::empty(conv2d_shape(x, weight, {}, {}));
      const auto problem = Conv2dProblem::of(x, weight, y, {});
      detail::onednn::forward(problem, at<float>(x), at<float>(weight), nullptr, at<float>(y));
      EXPECT_EQ(y.to_vector<float>(), std::vector<float>(static_cast<std::size_t>(size - 4), 25.0F))
          << "round " << round << ", size " << size;
    }
  }
}

}  // namespace
}  // namespace lockstep::test
