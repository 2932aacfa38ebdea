// Models with 16-bit parameters (nn::Module::to) under DistributedDataParallel.
#include <gtest/gtest.h>

#include <lockstep/nn/layers/activation.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::make_batch;

class DdpOfNarrowModels : public testing::TestWithParam<std::tuple<int, DType>> {};

std::vector<float> trained(const std::shared_ptr<ProcessGroup>& group, DType dtype) {
  nn::manual_seed(1);
  const auto model =
      std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
          std::make_shared<nn::Linear>(6, 16), std::make_shared<nn::Tanh>(),
          std::make_shared<nn::Linear>(16, 4)});
  model->to(dtype);
  DistributedDataParallel ddp(model, group);
  optim::AdamW adamw(model->named_parameters(), {.lr = 0.01});
  const Batch batch = make_batch(24, 0.3, DType::f32);
  const Batch share = batch.share(group->rank(), group->size());
  for (int step = 0; step < 10; ++step) {
    ddp.zero_grad();
    ddp.backward(test::mean_loss(ddp, share), static_cast<double>(share.rows()) / 24);
    adamw.step();
  }
  std::vector<float> all;
  for (const auto& entry : model->state_dict()) {
    EXPECT_EQ(entry.tensor.dtype(), dtype);
    for (const float value : entry.tensor.to(DType::f32).to_vector<float>()) all.push_back(value);
  }
  return all;
}

TEST_P(DdpOfNarrowModels, TrainToTheSameBitsOnAllRanksAndToAlmostThoseOfOne) {
  const auto [ranks, dtype] = GetParam();
  std::vector<float> alone;
  test::on_ranks(ranks, [&, dtype = dtype](const auto& group) {
    const auto together = trained(group, dtype);
    EXPECT_TRUE(
        test::same_on_all_ranks(*group, std::string(reinterpret_cast<const char*>(together.data()),
                                                    together.size() * sizeof(float))));
    const auto one = trained(group->split(group->rank(), 0), dtype);
    ASSERT_EQ(one.size(), together.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(together[i], one[i], 0.02) << i;
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpOfNarrowModels,
                         testing::Combine(testing::ValuesIn(test::rank_counts()),
                                          testing::Values(DType::bf16, DType::f16)));

}  // namespace
}  // namespace lockstep
