#include <array>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/power_sgd_hook.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/linalg/orthonormalize.hpp>

#include "given_gradients.hpp"
#include "ranks.hpp"

// ddp.h5, power_sgd: results of PyTorch's hook on two ranks, with its mean in place of our sum:
// each rank's gradient has weight 1/2, and so has its error.

namespace lockstep {
namespace {

constexpr std::array what{"q_orth", "p", "q_next", "out", "error"};

/// The case, read once: HDF5 must not be called from several threads.
struct PowerSgdCase {
  PowerSgdCase() {
    const test::GoldenFile file("ddp.h5");
    gradients = file.tensor("power_sgd/grads");  // [steps, 2, rows, columns]
    q0 = file.tensor("power_sgd/q0");            // [columns, rank]
    for (const std::string name : what) {
      reference.push_back(file.tensor("power_sgd/" + name + "_f64"));  // [steps, ...]
      tolerance.push_back(file.tolerance("power_sgd/" + name + "_f64"));
    }
    unread = file.unread("power_sgd");
  }
  Tensor gradients, q0;
  std::vector<Tensor> reference;
  std::vector<double> tolerance;
  std::vector<std::string> unread;
};

Tensor at(const Tensor& t, std::int64_t i) {
  const Shape& shape = t.shape();
  return t.slice(i, i + 1).reshape(
      Shape(std::span<const std::int64_t>(shape.begin() + 1, shape.end())));
}

Tensor transposed(const Tensor& t) {
  const auto elements = t.to(DType::f64).to_vector<double>();
  std::vector<double> result;
  for (std::int64_t c = 0; c < t.size(1); ++c) {
    for (std::int64_t r = 0; r < t.size(0); ++r) {
      result.push_back(elements[static_cast<std::size_t>(r * t.size(1) + c)]);
    }
  }
  return Tensor::from(result, {t.size(1), t.size(0)}).to(t.dtype());
}

class PowerSgdGolden : public testing::TestWithParam<int> {};

// The sum does not depend on its division among ranks: one rank contributes both gradients, ranks
// after the second none.
TEST_P(PowerSgdGolden, StepsAreThoseOfPyTorchsHook) {
  const PowerSgdCase golden;
  EXPECT_EQ(golden.unread, std::vector<std::string>{});
  const std::int64_t steps = golden.gradients.size(0), rank = golden.q0.size(1);
  ASSERT_GE(steps, 3);

  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto expect_close = [&](const Tensor& y, std::size_t quantity, const Tensor& reference,
                                    std::int64_t step) {
        EXPECT_LE(test::max_difference(y, reference), golden.tolerance[quantity])
            << what[quantity] << " of step " << step << " in " << name_of(dtype);
      };
      const Shape shape = at(at(golden.gradients, 0), 0).shape();
      const auto model = std::make_shared<test::GivenGradients>(std::vector<Shape>{shape}, dtype);
      const auto hook = std::make_shared<PowerSgdHook>(PowerSgdOptions{
          .matrix_approximation_rank = rank, .start_step = 0, .min_compression_rate = 0.1});
      DistributedDataParallel ddp(model, group, {}, hook);
      ASSERT_EQ(hook->matrices().size(), 1U);
      const auto matrix = hook->matrices().front();
      matrix.q.copy_from(transposed(golden.q0).to(dtype));

      for (std::int64_t step = 0; step < steps; ++step) {
        const auto of_file = [&](std::size_t i) { return at(golden.reference[i], step); };
        const Tensor q = matrix.q.clone();
        orthonormalize_rows(q);
        expect_close(transposed(q), 0, of_file(0), step);

        const Tensor ranks = at(golden.gradients, step).to(dtype);
        Tensor mine = Tensor::zeros(shape, dtype);
        if (group->rank() < 2) mine = at(ranks, group->rank()).clone();
        if (group->size() == 1) add_scaled(at(ranks, 1), 1.0, mine);
        model->gradients = {mine};
        ddp.zero_grad();
        ddp.backward(model->forward({}), 0.5);

        expect_close(transposed(matrix.p), 1, of_file(1), step);
        expect_close(transposed(matrix.q), 2, of_file(2), step);
        expect_close(model->parts[0].grad(), 3, of_file(3), step);
        const Tensor error = matrix.error.to(DType::f64).clone();
        scale(error, 2.0);
        const Tensor errors = of_file(4);
        if (group->size() == 2) expect_close(error, 4, at(errors, group->rank()), step);
        group->all_reduce(error, ReduceOp::sum).wait();
        const Tensor both = at(errors, 0).clone();
        add_scaled(at(errors, 1), 1.0, both);
        expect_close(error, 4, both, step);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, PowerSgdGolden, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
