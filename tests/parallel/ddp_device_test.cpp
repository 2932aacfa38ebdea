// A model on a device is trained to the host's bits, for every way of summing gradients.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/message_of.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/join.hpp>
#include <lockstep/parallel/model_averaging.hpp>
#include <lockstep/parallel/replica_check.hpp>
#include <lockstep/parallel/sync_batch_norm.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

Tensor wave_on(Device device, const Shape& shape, double phase) {
  return test::wave(shape, phase, DType::f32).to(device);
}

/// Linear, batch norm over the ranks or not, ReLU, Linear; a parameter that only rank 0 uses, and
/// an unused one.
struct DeviceNetwork : nn::Module {
  explicit DeviceNetwork(Device device,
                         std::shared_ptr<const StatisticsExchange> exchange = nullptr)
      : W1(register_parameter("W1", wave_on(device, {7, 6}, 0.1))),
        gamma(register_parameter("gamma", wave_on(device, {7}, 0.2))),
        beta(register_parameter("beta", wave_on(device, {7}, 0.3))),
        W2(register_parameter("W2", wave_on(device, {4, 7}, 0.4))),
        b2(register_parameter("b2", wave_on(device, {4}, 0.5))),
        of_rank_zero(register_parameter("of_rank_zero", wave_on(device, {4}, 0.6))),
        unused(register_parameter("unused", wave_on(device, {3}, 0.7))),
        statistics{register_buffer("mean", Tensor::zeros({7}, DType::f32, device)),
                   register_buffer("var", Tensor::full({7}, 1.0, DType::f32, device)),
                   std::move(exchange)} {}

  Variable forward(const Variable& x) override {
    const Variable hidden =
        relu(batch_norm(linear(x, W1, Variable()), gamma, beta, statistics, true, 0.1, 1e-5));
    const Variable y = linear(hidden, W2, b2);
    return uses_all ? y + of_rank_zero : y;
  }

  Variable W1, gamma, beta, W2, b2, of_rank_zero, unused;
  BatchNormStatistics statistics;
  bool uses_all = false;
};

struct Summing {
  std::string name;
  DdpOptions options;
  bool synchronises = false;
};

std::vector<Summing> kinds_of_summing(int ranks) {
  return {{"all_reduce", {.buckets = {64, 128}}},
          {"fp16_compress", {.buckets = {64, 128}, .comm_hook = CommHookKind::fp16_compress}},
          {"bf16_compress", {.comm_hook = CommHookKind::bf16_compress}},
          {"power_sgd",
           {.comm_hook = CommHookKind::power_sgd,
            .power_sgd = {.start_step = 1, .min_compression_rate = 0.5}}},
          {"buffers", {.broadcast_buffers_each_forward = true}},
          {"shards", {.buckets = {64, 128}, .shards = 2 * ranks}},
          {"sync_batch_norm", {.buckets = {64, 128}}, true}};
}

/// One step: gradients of two batches; the first stays local if there are no shards.
void train_step(DistributedDataParallel& ddp, Device device, int number) {
  const int rank = ddp.group().rank(), size = ddp.group().size();
  const auto loss_of = [&](std::int64_t part) {
    const double phase = 0.9 * static_cast<double>(part) + 1.3 * number;
    const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 3, 1}, {3}).to(device);
    return cross_entropy(ddp.forward(Variable(wave_on(device, {3, 6}, phase))), target);
  };
  ddp.zero_grad();
  {
    const auto local = ddp.no_sync();
    ddp.backward(loss_of(rank), 0.5 / size);
  }
  ddp.backward(loss_of(size + rank), 0.5 / size);
}

void train_shards(DistributedDataParallel& ddp, Device device, int number) {
  const double share = 0.5 / ddp.group().size();
  ddp.zero_grad();
  ddp.for_each_shard([&](std::int64_t shard) {
    const double phase = 0.9 * static_cast<double>(shard) + 1.3 * number;
    const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 3, 1}, {3}).to(device);
    ddp.backward(cross_entropy(ddp.forward(Variable(wave_on(device, {3, 6}, phase))), target),
                 share);
  });
}

std::vector<std::vector<float>> values_in(const nn::Module& module) {
  std::vector<std::vector<float>> state;
  for (const auto& entry : module.state_dict()) state.push_back(entry.tensor.to_vector<float>());
  return state;
}

std::vector<std::vector<float>> state_after_training(const std::shared_ptr<ProcessGroup>& group,
                                                     Device device, const Summing& summing) {
  const auto model = std::make_shared<DeviceNetwork>(
      device, summing.synchronises ? make_statistics_exchange(*group) : nullptr);
  model->uses_all = group->rank() == 0;
  DistributedDataParallel ddp(model, group, summing.options);
  optim::SGD sgd(model->named_parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int number = 0; number < 3; ++number) {
    if (summing.options.shards > 0) {
      train_shards(ddp, device, number);
    } else {
      train_step(ddp, device, number);
    }
    EXPECT_FALSE(model->unused.grad().defined());
    EXPECT_TRUE(model->of_rank_zero.grad().defined());
    sgd.step();
  }
  ddp.broadcast_buffers();
  average_parameters(*model, *group);
  EXPECT_FALSE(ReplicaCheck(group, model->state_dict()).compare());
  return values_in(*model);
}

Device device_for(const ProcessGroup& group) { return {DeviceType::sim, group.rank()}; }

class DdpOnDevices : public testing::TestWithParam<int> {};

TEST_P(DdpOnDevices, TrainsToTheHostsBits) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (const Summing& summing : kinds_of_summing(group->size())) {
      EXPECT_EQ(state_after_training(group, Device{}, summing),
                state_after_training(group, device_for(*group), summing))
          << summing.name;
    }
  });
}

TEST_P(DdpOnDevices, RanksWithoutInputsJoin) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto joined = [&](Device device) {
      const auto network = std::make_shared<DeviceNetwork>(device);
      network->uses_all = true;
      DistributedDataParallel ddp(network, group);
      optim::SGD sgd(network->named_parameters(), {.lr = 0.1, .momentum = 0.9});
      Join join({ddp}, {.after_shadow = [&] { sgd.step(); }});
      for (int number = 0; number <= group->rank(); ++number) {
        const double weight = join.step(3.0);
        ddp.zero_grad();
        const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 3, 1}, {3}).to(device);
        ddp.backward(cross_entropy(ddp.forward(Variable(wave_on(device, {3, 6}, number))), target),
                     weight);
        sgd.step();
      }
      join.finish();
      return values_in(*network);
    };
    EXPECT_EQ(joined(Device{}), joined(device_for(*group)));
  });
}

TEST_P(DdpOnDevices, ARankWithOtherBitsIsFound) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<DeviceNetwork>(device_for(*group));
    DistributedDataParallel ddp(model, group);
    if (group->rank() == 0) model->b2.data() += 1.0;
    const auto found = ReplicaCheck(group, model->state_dict()).compare();
    EXPECT_EQ(found.has_value(), group->size() > 1);
    EXPECT_EQ(found ? found->first : "b2", "b2");
  });
}

TEST_P(DdpOnDevices, AModelOnTwoDevicesIsRefusedByName) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<DeviceNetwork>(device_for(*group));
    const auto with_more = std::make_shared<DeviceNetwork>(Device{});
    struct Both : nn::Module {
      Both(const std::shared_ptr<nn::Module>& a, const std::shared_ptr<nn::Module>& b) {
        register_module("first", a);
        register_module("second", b);
      }
      Variable forward(const Variable& x) override { return x; }
    };
    const auto both = std::make_shared<Both>(model, with_more);
    const auto message =
        test::message_of<Error>([&] { const DistributedDataParallel ddp(both, group); });
    for (const std::string part : {"first.W1", "sim:", "second.W1", "host", "with to()"}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
  });
}

TEST_P(DdpOnDevices, RanksOnTwoKindsOfDeviceAreRefused) {
  test::on_ranks(GetParam(), [](const auto& group) {
    if (group->size() == 1) return;
    const auto model =
        std::make_shared<DeviceNetwork>(group->rank() == 1 ? device_for(*group) : Device{});
    const auto message =
        test::message_of<Error>([&] { const DistributedDataParallel ddp(model, group); });
    EXPECT_NE(message.find("f32[7, 6] on sim"), std::string::npos) << message;
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpOnDevices, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
