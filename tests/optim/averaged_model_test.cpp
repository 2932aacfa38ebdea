#include <lockstep/optim/averaged_model.hpp>

#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers/batch_norm.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep {
namespace {

struct TwoNumbers : nn::Module {
  Variable w = register_parameter("w", Tensor::zeros({2}));
  Variable forward(const Variable& x) override { return x; }

  void set(double value) const {
    w.data().copy_from(Tensor::from(std::vector<float>{static_cast<float>(value), 1.0F}, {2}));
  }
};

float first(const Tensor& t) { return t.to_vector<float>()[0]; }

float average(const optim::AveragedModel& model) {
  return first(model.state_dict().find("w")->tensor);
}

TEST(AveragedModel, IsTheMeanOfAllUpdates) {
  const TwoNumbers net;
  optim::AveragedModel mean(net);
  for (const double value : {4.0, 8.0, 6.0, 2.0}) {
    net.set(value);
    mean.update_parameters();
  }
  EXPECT_EQ(mean.n_averaged(), 4);
  EXPECT_FLOAT_EQ(average(mean), 5.0F);
}

TEST(AveragedModel, WithADecayIsTheExponentialMovingAverage) {
  const TwoNumbers net;
  optim::AveragedModel ema(net, 0.75);
  double expected = 0.0;
  for (int step = 0; step < 20; ++step) {
    const double value = std::sin(step);
    net.set(value);
    ema.update_parameters();
    expected = step == 0 ? value : 0.75 * expected + 0.25 * value;
    EXPECT_NEAR(average(ema), expected, 1e-6) << step;
  }
  EXPECT_THROW(optim::AveragedModel(net, 1.0), InputError);
}

TEST(AveragedModel, GoesOnFromItsStateWithTheSameBits) {
  const TwoNumbers net;
  optim::AveragedModel whole(net, 0.9), before(net, 0.9), after(net, 0.9);
  for (int step = 0; step < 6; ++step) {
    net.set(std::cos(step));
    whole.update_parameters();
    if (step == 3) after.load_state_dict(before.state_dict());
    (step < 3 ? before : after).update_parameters();
  }
  EXPECT_EQ(after.n_averaged(), 6);
  EXPECT_EQ(average(after), average(whole));
}

TEST(AveragedModel, SwapsWithTheModelAndBack) {
  const TwoNumbers net;
  optim::AveragedModel mean(net);
  for (const double value : {1.0, 3.0}) {
    net.set(value);
    mean.update_parameters();
  }
  mean.swap();
  EXPECT_EQ(first(net.w.data()), 2.0F);
  mean.swap();
  EXPECT_EQ(first(net.w.data()), 3.0F);
  EXPECT_EQ(average(mean), 2.0F);
}

TEST(AveragedModel, RefusesParametersOf16Bits) {
  const TwoNumbers net;
  net.to(DType::bf16);
  EXPECT_THROW(optim::AveragedModel(net, 0.999), InputError);
}

TEST(UpdateBn, GivesTheMeanOfTheBatchesStatistics) {
  nn::Sequential model{
      {std::make_shared<nn::BatchNorm1d>(1), std::make_shared<nn::BatchNorm1d>(1)}};
  model.eval();
  const std::vector<std::vector<float>> batches{{1, 3}, {10, 20, 30}, {5, 5}};
  std::size_t next = 0;
  optim::update_bn(model, [&] {
    if (next == batches.size()) return false;
    EXPECT_TRUE(model.is_training());
    const auto& batch = batches[next++];
    static_cast<void>(model.forward(Variable(Tensor::from(batch, {std::ssize(batch), 1}))));
    return true;
  });
  EXPECT_FALSE(model.is_training());
  const StateDict state = model.state_dict();
  EXPECT_FLOAT_EQ(first(state.at("0.running_mean")), (2.0F + 20.0F + 5.0F) / 3.0F);
  EXPECT_FLOAT_EQ(first(state.at("0.running_var")), (2.0F + 100.0F + 0.0F) / 3.0F);
  EXPECT_EQ(state.at("0.num_batches_tracked").item(), 3);
  // From now on they move as before.
  model.train();
  static_cast<void>(model.forward(Variable(Tensor::from(std::vector<float>{-1, 1}, {2, 1}))));
  EXPECT_FLOAT_EQ(first(state.at("0.running_mean")), 0.9F * 9.0F);
}

TEST(UpdateBn, LeavesTheModelUnchangedWhereABatchCannotBeRead) {
  const auto trained = std::make_shared<nn::BatchNorm1d>(1),
             frozen = std::make_shared<nn::BatchNorm1d>(1);
  nn::Sequential model{trained, frozen};
  const Variable batch(Tensor::from(std::vector<float>{1, 5}, {2, 1}));
  static_cast<void>(model.forward(batch));
  frozen->eval();
  const auto statistics = [&] {
    std::vector<double> all;
    for (const auto& [name, buffer] : model.named_buffers()) all.push_back(buffer.item());
    return all;
  };
  const std::vector<double> before = statistics();
  int batches = 0;
  EXPECT_THROW(optim::update_bn(model,
                                [&] {
                                  if (++batches == 3) throw Error("no more batches today");
                                  static_cast<void>(model.forward(batch));
                                  EXPECT_NE(statistics(), before);
                                  return true;
                                }),
               Error);
  EXPECT_EQ(statistics(), before);
  EXPECT_TRUE(model.is_training());
  EXPECT_TRUE(trained->is_training());
  EXPECT_FALSE(frozen->is_training());
  EXPECT_EQ(trained->set_momentum(0.5), 0.1);
}

}  // namespace
}  // namespace lockstep
