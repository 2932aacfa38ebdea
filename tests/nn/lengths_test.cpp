// Recurrent layers over sequences of unequal lengths, and attention that returns its weights,
// beside PyTorch 2.15's numbers in f64: pack_padded_sequence(enforce_sorted=False),
// need_weights=True.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/layers/recurrent.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/message_of.hpp>

namespace lockstep::nn {
namespace {

using Doubles = std::vector<double>;

/// sin(0.7 i + phase).
Tensor sines(const Shape& shape, double phase) {
  Doubles elements(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = std::sin(0.7 * static_cast<double>(i) + phase);
  }
  return Tensor::from(elements, shape);
}

/// Parameter j becomes 0.5 sin(0.7 i + j).
void make_sines(Module& module) {
  double phase = 0.0;
  for (const auto& [name, parameter] : module.named_parameters()) {
    const Variable half = Variable(sines(parameter.shape(), phase++)) * 0.5;
    parameter.data().copy_from(half.data().to(parameter.data().dtype()));
  }
}

Variable weighted(const Variable& x, double phase) {
  return sum(x * Variable(sines(x.shape(), phase)));
}

void expect_near(const Tensor& actual, const Doubles& expected) {
  const auto numbers = actual.to_vector<double>();
  ASSERT_EQ(numbers.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(numbers[i], expected[i], 1e-13) << i;
  }
}

const Tensor lengths_2_4_1 = Tensor::from(std::vector<std::int64_t>{2, 4, 1}, {3});

/// The loss that the script had, its gradients of x and, times sines and summed, of parameters.
void expect_pytorchs(Module& layer, const std::function<RecurrentResult(const Variable&)>& run,
                     double loss, const Doubles& grad_x, const Doubles& grad_parameters) {
  const Variable x(sines({4, 3, 2}, 0.3), true);
  make_sines(layer);
  const RecurrentResult y = run(x);
  Variable total = weighted(y.output, 1.1) + weighted(y.h_n, 2.1);
  if (y.c_n.defined()) total = total + weighted(y.c_n, 3.1);
  EXPECT_NEAR(total.data().item(), loss, 1e-13);
  total.backward();
  expect_near(x.grad(), grad_x);
  std::size_t i = 0;
  for (const auto& [name, parameter] : layer.named_parameters()) {
    EXPECT_NEAR(weighted(Variable(parameter.grad()), 0.2).data().item(), grad_parameters.at(i++),
                1e-13)
        << name;
  }
}

constexpr RecurrentOptions both_ways{.num_layers = 2, .bidirectional = true};

TEST(Lengths, LSTMOfPackedSequencesIsPyTorchs) {
  const DTypeGuard dtype(DType::f64);
  LSTM layer(2, 2, both_ways);
  expect_pytorchs(
      layer, [&](const Variable& x) { return layer.forward(x, {}, {}, lengths_2_4_1); },
      3.248431369047487,
      {-0.13421181227747592,
       -0.24853713798488836,
       -0.09584976317139551,
       -0.19631847484730258,
       0.47237680413396044,
       0.4277717252915642,
       -0.41864297453581273,
       -0.3897643265328869,
       -0.04024422507403061,
       -0.20102910491153783,
       0.0,
       0.0,
       0.0,
       0.0,
       0.05490049891490016,
       -0.1287922215830954,
       0.0,
       0.0,
       0.0,
       0.0,
       -0.2370510446848011,
       -0.46600146509615364,
       0.0,
       0.0},
      {-1.6336612229611354, 0.29900999722571314, 0.9191274872918931, 0.919127487291893,
       -0.5398607421918881, -0.07445219627213367, 0.09786304460742261, 0.09786304460742272,
       -0.05133564054944566, 0.026995504760205465, 0.09361017599368451, 0.09361017599368449,
       -0.09245677353753066, 0.23713915385236536, 1.0654605426323762, 1.0654605426323762});
}

TEST(Lengths, GRUOfPackedSequencesIsPyTorchs) {
  const DTypeGuard dtype(DType::f64);
  GRU layer(2, 2, both_ways);
  expect_pytorchs(
      layer, [&](const Variable& x) { return layer.forward(x, {}, lengths_2_4_1); },
      1.1507174811650795,
      {0.021073054117036007,
       0.011888556078602841,
       -0.04155484533536244,
       -0.12292720304759248,
       0.07731178782044232,
       -0.07528305427331528,
       -0.263519452314144,
       -0.09913991487088764,
       -0.061988164823341164,
       -0.16065329538597273,
       0.0,
       0.0,
       0.0,
       0.0,
       -0.04148146772170608,
       -0.16166626075481372,
       0.0,
       0.0,
       0.0,
       0.0,
       -0.2983714667655359,
       -0.4629836174528534,
       0.0,
       0.0},
      {-1.4316873766546652, 0.4693965966025532, 0.5776864412065996, 0.2798796910039433,
       -0.8692869506631313, -0.08107681832305258, -0.23351109437120943, -0.17531691240641512,
       -0.0002039562465764172, -0.18684268239947288, 0.026835227647608553, -0.0817658152301762,
       0.38195224939409445, 0.10654961967117008, 0.29978927111986253, 0.10646457351501991});
}

TEST(Lengths, RNNOfPackedSequencesIsPyTorchs) {
  const DTypeGuard dtype(DType::f64);
  RNN layer(2, 2, both_ways);
  expect_pytorchs(
      layer, [&](const Variable& x) { return layer.forward(x, {}, lengths_2_4_1); },
      -2.423071981593707,
      {0.04949508444021258,
       0.23018142772421202,
       -0.640647510048794,
       -0.5698885999056772,
       -0.36134697093729135,
       -0.7412909320388783,
       0.18592883267826443,
       0.3973842025422637,
       -0.0741883657650918,
       -0.050737005352532144,
       0.0,
       0.0,
       0.0,
       0.0,
       -0.21707668968821753,
       -0.3191769906187939,
       0.0,
       0.0,
       0.0,
       0.0,
       -0.247667481825127,
       -0.29559454533473645,
       0.0,
       0.0},
      {-0.5501917215478541, -0.011359910701439213, -1.1522818326604982, -1.1522818326604982,
       1.6894899555911254, 0.9679623760850066, 1.0599355094640335, 1.0599355094640333,
       -0.23345911712907286, 2.5704554199439356, -0.0916434427647867, -0.09164344276478682,
       0.6759911583106037, -0.4800211648149605, -0.9330794401436271, -0.9330794401436271});
}

TEST(Lengths, EachSequenceIsAsIfItWereAlone) {
  const DTypeGuard dtype(DType::f64);
  LSTM layer(2, 3, {.num_layers = 2, .batch_first = true, .bidirectional = true});
  make_sines(layer);
  const Variable x(sines({3, 4, 2}, 0.3));
  const auto together = layer.forward(x, {}, {}, lengths_2_4_1);
  const std::int64_t lengths[] = {2, 4, 1};
  for (std::int64_t n = 0; n < 3; ++n) {
    const Variable mine = narrow(narrow(x, 0, n, 1), 1, 0, lengths[n]);
    const auto alone = layer.forward(mine, {}, {});
    const Variable row = narrow(together.output, 0, n, 1);
    expect_near(narrow(row, 1, 0, lengths[n]).data(), alone.output.data().to_vector<double>());
    const Variable rest = narrow(row, 1, lengths[n], 4 - lengths[n]);
    expect_near(rest.data(), Doubles(static_cast<std::size_t>(rest.data().numel()), 0.0));
    expect_near(narrow(together.h_n, 1, n, 1).data(), alone.h_n.data().to_vector<double>());
    expect_near(narrow(together.c_n, 1, n, 1).data(), alone.c_n.data().to_vector<double>());
  }
}

TEST(Lengths, NothingDependsOnThePadding) {
  const auto run = [](double padding, Device device) {
    const DeviceGuard there(device);
    GRU layer(2, 3, both_ways);
    make_sines(layer);
    Tensor data = sines({4, 3, 2}, 0.3).to(DType::f32);
    auto* const elements = static_cast<float*>(data.data());
    for (const int place : {12, 13, 18, 19, 10, 11}) elements[place] = static_cast<float>(padding);
    const Variable x(data.to(device), true);
    const auto y = layer.forward(x, {}, lengths_2_4_1);
    (sum(y.output) + sum(y.h_n)).backward();
    std::vector<std::vector<float>> all{y.output.data().to_vector<float>(),
                                        y.h_n.data().to_vector<float>(),
                                        x.grad().to_vector<float>()};
    for (const auto& p : layer.named_parameters()) {
      all.push_back(p.variable.grad().to_vector<float>());
    }
    return all;
  };
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  constexpr Device sim{DeviceType::sim, 0};
  EXPECT_EQ(run(nothing, {}), run(0.0, {}));
  EXPECT_EQ(run(nothing, sim), run(0.0, {}));
  const test::GpuStandIn gpu;
  EXPECT_EQ(run(nothing, sim), run(0.0, sim));
}

TEST(Lengths, OfAllStepsGiveTheSameBitsAsNone) {
  LSTM layer(2, 3);
  const Variable x(sines({4, 3, 2}, 0.3).to(DType::f32));
  const auto all = layer.forward(x, {}, {}, Tensor::from(std::vector<std::int64_t>{4, 4, 4}, {3}));
  EXPECT_EQ(all.output.data().to_vector<float>(), layer(x).data().to_vector<float>());
}

TEST(Lengths, InvalidOnesAreRefusedNamingTheSequence) {
  GRU layer(2, 3);
  const Variable x(Tensor::zeros({4, 3, 2}));
  const auto message = [&](const Tensor& lengths) {
    return test::message_of<ShapeError>([&] { static_cast<void>(layer.forward(x, {}, lengths)); });
  };
  const auto of = [](std::vector<std::int64_t> numbers) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    return Tensor::from(numbers, {count});
  };
  EXPECT_NE(message(of({4, 0, 1})).find("not 0 (sequence 1)"), std::string::npos);
  EXPECT_NE(message(of({4, 4, 5})).find("not 5 (sequence 2)"), std::string::npos);
  EXPECT_NE(message(of({4, 4})).find("not i64[2]"), std::string::npos);
  EXPECT_NE(message(Tensor::full({3}, 2.0)).find("not f32[3]"), std::string::npos);
}

TEST(AttentionWeights, ArePyTorchs) {
  const DTypeGuard dtype(DType::f64);
  MultiheadAttention attention(4, 2);
  make_sines(attention);
  const Variable query(sines({2, 3, 4}, 0.3)), key(sines({2, 2, 4}, 1.3)),
      value(sines({2, 2, 4}, 2.3));
  const Tensor padding =
      Tensor::from(std::vector<std::uint8_t>{0, 1, 0, 0}, {2, 2}).to(DType::boolean);
  const Doubles output{
      0.31529527679755265, -0.6584027238546255, 0.020963752575823558, -1.0055484532511996,
      0.31529527679755265, -0.6584027238546255, 0.020963752575823558, -1.0055484532511996,
      0.31529527679755265, -0.6584027238546255, 0.020963752575823558, -1.0055484532511996,
      0.09285478727802385, -0.4516769138468659, -0.14615911106891866, -0.897340471733763,
      0.03448292456654564, -0.4412207460151739, -0.10749131821504271, -0.9806639561479942,
      0.13685566887361128, -0.4946855718890155, -0.10911255576552192, -0.924143997794968};
  const auto mean_of_heads = attention.forward_with_weights(query, key, value, padding);
  EXPECT_EQ(mean_of_heads.weights.shape(), (Shape{2, 3, 2}));
  expect_near(mean_of_heads.output.data(), output);
  expect_near(mean_of_heads.weights.data(),
              {1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.8357390089842163, 0.16426099101578376,
               0.22247508307618963, 0.7775249169238103, 0.740978641883538, 0.25902135811646204});
  const auto each_head =
      attention.forward_with_weights(query, key, value, padding, /*is_causal=*/false,
                                     /*average_attn_weights=*/false);
  EXPECT_EQ(each_head.weights.shape(), (Shape{2, 2, 3, 2}));
  expect_near(each_head.output.data(), output);
  expect_near(each_head.weights.data(), {1.0,
                                         0.0,
                                         1.0,
                                         0.0,
                                         1.0,
                                         0.0,
                                         1.0,
                                         0.0,
                                         1.0,
                                         0.0,
                                         1.0,
                                         0.0,
                                         0.7904294506677622,
                                         0.20957054933223773,
                                         0.3839500952107075,
                                         0.6160499047892924,
                                         0.6495862004339268,
                                         0.35041379956607327,
                                         0.8810485673006703,
                                         0.1189514326993298,
                                         0.061000070941671786,
                                         0.9389999290583282,
                                         0.8323710833331491,
                                         0.1676289166668508});
  expect_near(attention.forward(query, key, value, padding).data(), output);
}

TEST(AttentionWeights, OfACausalSelfAttentionAreZeroAboveTheDiagonal) {
  MultiheadAttention attention(4, 2);
  const Variable x(sines({1, 3, 4}, 0.3).to(DType::f32));
  const auto y = attention.forward_with_weights(x, x, x, {}, /*is_causal=*/true);
  const auto weights = y.weights.data().to_vector<float>();
  EXPECT_EQ(weights[0], 1.0F);
  for (const std::size_t above : {1U, 2U, 5U}) EXPECT_EQ(weights[above], 0.0F) << above;
}

}  // namespace
}  // namespace lockstep::nn
