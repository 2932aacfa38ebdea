// Null pointers are refused with a sentence.
#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/parallel/model_averaging.hpp>
#include <lockstep/parallel/replica_check.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>
#include <support/message_of.hpp>

#include "small_models.hpp"

namespace lockstep {
namespace {

TEST(NullPointers, AreSentencesInEveryPartOfParallelTraining) {
  const auto model = std::make_shared<test::Mlp>(1.0);
  const auto group = std::make_shared<FakeGroup>(1, 0);
  const std::vector<std::function<void()>> calls = {
      [&] { DistributedDataParallel(model, nullptr); },
      [&] { DistributedDataParallel(nullptr, group); },
      [&] { PeriodicModelAverager({}, nullptr, 1, 0); },
      [&] { ReplicaCheck(nullptr, model->state_dict()); },
      [&] {
        DeviceMesh(nullptr, {{"dp", -1}});
      },
      [&] { TensorParallelGradNorm(*model, nullptr); }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto message = test::message_of<Error>(calls[i]);
    EXPECT_NE(message.find(" is null"), std::string::npos) << i << ": " << message;
  }
}

TEST(OutsideTheGroup, DistributedDataParallelSaysSo) {
  FakeGroup world(4, 2);
  const std::shared_ptr<ProcessGroup> pair = world.new_group({0, 1});
  const auto model = std::make_shared<test::Mlp>(1.0);
  const auto message = test::message_of<Error>([&] { DistributedDataParallel(model, pair); });
  EXPECT_NE(message.find("rank 2 is not in this group, which has ranks [0, 1]"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace lockstep
