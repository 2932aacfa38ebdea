// The ConvNet on real images against PyTorch (tests/golden/convnet.h5): losses of 20 steps, the
// first gradients, the final parameters and the test loss, for any number of ranks.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/data/fashion_mnist.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/kernels/loss/accuracy.hpp>
#include <support/golden_file.hpp>

namespace lockstep {
namespace {

class ConvNetGolden : public testing::Test {
 protected:
  ConvNetGolden()
      : ddp_(nn::convnet({1, 28, 28}, 10, 0.0), group_),
        sgd_(ddp_.module().named_parameters(),
             {.lr = file_.number("main", "lr"), .momentum = file_.number("main", "momentum")}) {
    StateDict initial;
    for (const auto& name : file_.datasets("init"))
      initial.insert(name, file_.tensor("init/" + name));
    ddp_.load_state_dict(initial);
  }
  ~ConvNetGolden() override { group_->close(); }

  [[nodiscard]] std::int64_t whole(const char* path, const char* name) const {
    return static_cast<std::int64_t>(file_.number(path, name));
  }

  [[nodiscard]] std::shared_ptr<const Dataset> data(Split split) const {
    return load_fashion_mnist(find_fashion_mnist("auto"), split,
                              {{file_.number("", "mean")}, {file_.number("", "std")}});
  }

  /// Gradients of batch `step`; returns its mean loss over all ranks.
  double backward(const Dataset& images, std::int64_t step) {
    const std::int64_t size = whole("", "batch_size");
    const Share share = BatchPlan(images.size(), size, group_->size()).share(step, group_->rank());
    std::vector<std::int64_t> indices(static_cast<std::size_t>(share.size()));
    std::iota(indices.begin(), indices.end(), whole("", "first_index") + share.positions.begin);
    Batch batch(images, share.size());
    images.load(indices, batch);
    ddp_.zero_grad();
    Variable loss;
    if (batch.size() > 0) loss = nll_loss(ddp_.forward(Variable(batch.inputs())), batch.targets());
    const double weight = static_cast<double>(share.size()) / static_cast<double>(size);
    ddp_.backward(loss, weight);
    return all_reduce_scalar(*group_, loss.defined() ? weight * loss.data().item() : 0.0,
                             ReduceOp::sum);
  }

  std::shared_ptr<ProcessGroup> group_ = make_mpi_group(MPI_COMM_WORLD);
  test::GoldenFile file_{"convnet.h5"};
  DistributedDataParallel ddp_;
  optim::SGD sgd_;
};

TEST_F(ConvNetGolden, FirstGradientsAreThoseOfPyTorch) {
  backward(*data(Split::train), 0);
  for (const auto& p : ddp_.module().named_parameters()) {
    EXPECT_LE(
        test::max_difference(p.variable.grad(), file_.tensor("step0/grad/" + p.name + "_f64")),
        3e-5)
        << p.name;
  }
}

TEST_F(ConvNetGolden, LossesParametersAndTestLossOfTwentyStepsAreThoseOfPyTorch) {
  const auto images = data(Split::train);
  const auto reference = file_.tensor("main/loss_f64").to_vector<double>();
  ASSERT_EQ(static_cast<std::int64_t>(reference.size()), whole("main", "steps"));
  for (std::size_t step = 0; step < reference.size(); ++step) {
    EXPECT_LE(std::abs(backward(*images, static_cast<std::int64_t>(step)) - reference[step]), 2e-5)
        << "step " << step;
    sgd_.step();
  }
  for (const auto& p : ddp_.module().named_parameters()) {
    EXPECT_LE(
        test::max_difference(p.variable.data(), file_.tensor("main/final/" + p.name + "_f64")),
        1e-4)
        << p.name;
  }

  const auto test_images = data(Split::test);
  const NoGradGuard no_grad;
  ddp_.module().eval();
  double loss = 0;
  std::int64_t correct = 0;
  constexpr std::int64_t size = 1000;
  Batch batch(*test_images, size);
  std::vector<std::int64_t> indices(size);
  for (std::int64_t first = 0; first < test_images->size(); first += size) {
    std::iota(indices.begin(), indices.end(), first);
    test_images->load(indices, batch);
    const Variable output = ddp_.forward(Variable(batch.inputs()));
    loss += nll_loss(output, batch.targets()).data().item() * size;
    correct += count_correct(output.data(), batch.targets());
  }
  loss /= static_cast<double>(test_images->size());
  EXPECT_LE(std::abs(loss - file_.tensor("main/test_loss_f64").item()), 2e-5);
  EXPECT_LE(std::abs(correct - whole("main", "test_correct_f64")),
            whole("main", "test_top2_margin_below_1e_4"));
}

}  // namespace
}  // namespace lockstep
