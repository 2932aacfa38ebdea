// Recurrent layers, cells, EmbeddingBag and MultiheadAttention of two sequences: torch.nn's names,
// begin and rules. Their numbers are in golden_rnn_test.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include <support/allocation_counter.hpp>
#include <support/message_of.hpp>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/layers/embedding.hpp>
#include <lockstep/nn/layers/recurrent.hpp>

namespace lockstep::nn {
namespace {

using Floats = std::vector<float>;

Floats floats(const Variable& x) { return x.data().to_vector<float>(); }

Variable random_leaf(const Shape& shape) { return Variable(uniform(shape, 1.0), true); }

std::string names(const Module& module) {
  std::string all;
  for (const auto& p : module.named_parameters())
    all += p.name + to_string(p.variable.shape()) + " ";
  return all;
}

TEST(Recurrent, ParametersAreThoseOfPyTorch) {
  EXPECT_EQ(names(LSTM(5, 6, {.num_layers = 2})),
            "weight_ih_l0[24, 5] weight_hh_l0[24, 6] bias_ih_l0[24] bias_hh_l0[24] "
            "weight_ih_l1[24, 6] weight_hh_l1[24, 6] bias_ih_l1[24] bias_hh_l1[24] ");
  EXPECT_EQ(names(GRU(5, 6, {.num_layers = 2, .bias = false, .bidirectional = true})),
            "weight_ih_l0[18, 5] weight_hh_l0[18, 6] "
            "weight_ih_l0_reverse[18, 5] weight_hh_l0_reverse[18, 6] "
            "weight_ih_l1[18, 12] weight_hh_l1[18, 6] "
            "weight_ih_l1_reverse[18, 12] weight_hh_l1_reverse[18, 6] ");
  EXPECT_EQ(names(RNN(5, 6)), "weight_ih_l0[6, 5] weight_hh_l0[6, 6] bias_ih_l0[6] bias_hh_l0[6] ");
  EXPECT_EQ(names(LSTMCell(5, 6)), "weight_ih[24, 5] weight_hh[24, 6] bias_ih[24] bias_hh[24] ");
  EXPECT_EQ(names(GRUCell(5, 6, false)), "weight_ih[18, 5] weight_hh[18, 6] ");
}

TEST(Recurrent, BeginsUniformInOneOverTheRootOfTheHiddenSize) {
  manual_seed(1);
  LSTM lstm(50, 100);
  for (const auto& p : lstm.named_parameters()) {
    float most = 0;
    for (const float w : floats(p.variable)) most = std::max(most, std::abs(w));
    EXPECT_LE(most, 0.1F) << p.name;
    EXPECT_GT(most, 0.098F) << p.name;
  }
}

TEST(Recurrent, WithTheBatchFirstIsTheSameTransposed) {
  manual_seed(2);
  GRU plain(3, 4, {.num_layers = 2, .bidirectional = true});
  GRU first(3, 4, {.num_layers = 2, .batch_first = true, .bidirectional = true});
  first.load_state_dict(plain.state_dict());
  const Variable x = random_leaf({5, 2, 3}), h0 = random_leaf({4, 2, 4});
  const auto a = plain.forward(x, h0), b = first.forward(transpose(x, 0, 1), h0);
  EXPECT_EQ(b.output.shape(), (Shape{2, 5, 8}));
  EXPECT_EQ(floats(transpose(b.output, 0, 1)), floats(a.output));
  EXPECT_EQ(floats(b.h_n), floats(a.h_n));
}

TEST(Recurrent, OutputsEndInTheLastStates) {
  manual_seed(3);
  LSTM lstm(3, 4, {.num_layers = 2, .bidirectional = true});
  const auto y = lstm.forward(random_leaf({5, 2, 3}), {}, {});
  ASSERT_EQ(y.h_n.shape(), (Shape{4, 2, 4}));
  ASSERT_EQ(y.c_n.shape(), (Shape{4, 2, 4}));
  const Tensor last = y.h_n.data().slice(2, 4);  // of the second layer, forward and reverse
  const auto forward = narrow(narrow(y.output, 0, 4, 1), 2, 0, 4);
  const auto reverse = narrow(narrow(y.output, 0, 0, 1), 2, 4, 4);
  EXPECT_EQ(last.slice(0, 1).to_vector<float>(), floats(forward));
  EXPECT_EQ(last.slice(1, 2).to_vector<float>(), floats(reverse));
}

/// A layer's parameters as a cell's.
void copy_layer(const Module& layer, Module& cell) {
  StateDict state;
  for (const auto& p : layer.named_parameters()) {
    state.insert(p.name.substr(0, p.name.size() - 3), p.variable.data());
  }
  cell.load_state_dict(state);
}

TEST(Cells, StepAsTheirLayersDo) {
  manual_seed(4);
  const Variable x = random_leaf({3, 2, 5});
  const auto step = [&](std::int64_t t) { return reshape(narrow(x, 0, t, 1), {2, 5}); };
  const auto agrees = [](const Variable& h, const Variable& expected) {
    const auto a = floats(h), b = floats(expected);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
  };
  {
    LSTM layer(5, 6);
    LSTMCell cell(5, 6);
    copy_layer(layer, cell);
    LSTMState state;
    for (int t = 0; t < 3; ++t) state = cell.forward(step(t), state);
    const auto whole = layer.forward(x, {}, {});
    agrees(state.h, whole.h_n);
    agrees(state.c, whole.c_n);
  }
  const auto check = [&](auto&& layer, auto&& cell) {
    copy_layer(layer, cell);
    Variable h;
    for (int t = 0; t < 3; ++t) h = h.defined() ? cell.forward(step(t), h) : cell.forward(step(t));
    agrees(h, layer.forward(x, {}).h_n);
  };
  check(GRU(5, 6), GRUCell(5, 6));
  check(RNN(5, 6), RNNCell(5, 6));
  check(RNN(5, 6, {}, Nonlinearity::relu), RNNCell(5, 6, true, Nonlinearity::relu));
}

TEST(Recurrent, StatesCarryASequenceOn) {
  manual_seed(5);
  LSTM lstm(3, 4, {.num_layers = 2});
  const Variable x = random_leaf({6, 2, 3});
  const auto whole = lstm.forward(x, {}, {});
  const auto begin = lstm.forward(narrow(x, 0, 0, 4), {}, {});
  const auto end = lstm.forward(narrow(x, 0, 4, 2), begin.h_n, begin.c_n);
  const auto a = floats(end.h_n), b = floats(whole.h_n);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
}

TEST(Recurrent, DropoutActsBetweenLayersInTrainingOnlyAndPerSample) {
  manual_seed(6);
  LSTM lstm(3, 4, {.num_layers = 2, .dropout = 0.5});
  LSTM single(3, 4, {.dropout = 0.5});
  const Variable x = random_leaf({5, 4, 3});
  EXPECT_EQ(floats(single(x)), floats(single(x))) << "not of the last layer's output";
  EXPECT_NE(floats(lstm(x)), floats(lstm(x)));
  const auto under_a_context = [&](const Variable& part, std::int64_t first) {
    const RandomContextGuard guard({.seed = 9, .step = 1, .first_sample = first});
    return lstm(part);
  };
  const Variable all = under_a_context(x, 0), half = under_a_context(narrow(x, 1, 2, 2), 2);
  const auto a = floats(narrow(all, 1, 2, 2)), b = floats(half);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << "a sample's own mask";
  lstm.eval();
  EXPECT_EQ(floats(lstm(x)), floats(lstm(x)));
}

TEST(Recurrent, NamesInvalidArguments) {
  LSTM lstm(3, 4);
  const auto said = [](const auto& call) { return test::message_of<Error>(call); };
  const auto expect = [](const std::string& message, const char* words) {
    EXPECT_NE(message.find(words), std::string::npos) << message << ", not: " << words;
  };
  expect(said([&] { static_cast<void>(lstm(random_leaf({5, 3}))); }), "LSTM takes x [T, N, 3]");
  expect(said([&] { static_cast<void>(lstm(random_leaf({5, 2, 4}))); }), "not f32[5, 2, 4]");
  expect(said([&] { static_cast<void>(lstm(random_leaf({0, 2, 3}))); }), "at least one step");
  expect(said([&] {
           static_cast<void>(lstm.forward(random_leaf({5, 2, 3}), random_leaf({1, 3, 4}), {}));
         }),
         "LSTM takes states [1, 2, 4], not f32[1, 3, 4]");
  expect(said([] { const GRU bad(3, 0); }), "GRU: hidden_size");
  expect(said([] { const GRU bad(3, 4, {.num_layers = 0}); }), "GRU: num_layers");
  expect(said([] { const GRU bad(3, 4, {.dropout = 1.0}); }), "GRU: dropout");
  GRUCell cell(3, 4);
  expect(said([&] { static_cast<void>(cell(random_leaf({1, 2, 3}))); }), "GRUCell takes x [N, I]");
  expect(said([&] {
           static_cast<void>(cell.forward(random_leaf({2, 3}), random_leaf({2, 5})));
         }),
         "takes h0 f32[2, 4], not f32[2, 5]");
}

TEST(Recurrent, AnEmptyBatchIsOne) {
  LSTM lstm(3, 4);
  const Variable x = random_leaf({5, 0, 3});
  const Variable y = lstm(x);
  EXPECT_EQ(y.shape(), (Shape{5, 0, 4}));
  sum(y).backward();
  EXPECT_EQ(lstm.parameters()[1].grad().to_vector<float>(), Floats(64, 0.0F));
}

TEST(Recurrent, StepsAllocateNothing) {
  manual_seed(7);
  LSTM lstm(20, 24, {.num_layers = 2, .batch_first = true, .dropout = 0.1, .bidirectional = true});
  GRU gru(48, 20);
  MultiheadAttention attention(20, 2);
  EmbeddingBag bag(30, 20);
  const Variable x = random_leaf({4, 6, 20});
  const Variable index(Tensor::from(std::vector<std::int64_t>{3, 4, 5, 5, 29, 0}, {2, 3}));
  const auto step = [&] {
    const auto y = lstm.forward(x, {}, {});
    const auto z = gru.forward(y.output, {});
    const auto looked = attention.forward(z.output, x, x);
    (sum(looked) + sum(y.c_n) + sum(z.h_n) + sum(bag(index))).backward();
  };
  for (int warm_up = 0; warm_up < 3; ++warm_up) step();
  const auto calls = test::allocation_count();
  const auto system = memory_stats().system_allocations;
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(test::allocation_count() - calls, 0);
  EXPECT_EQ(memory_stats().system_allocations - system, 0);
}

TEST(CrossAttention, OfASequenceToItselfIsSelfAttention) {
  manual_seed(8);
  MultiheadAttention attention(6, 3);
  const Variable x = random_leaf({2, 5, 6}), copy(x.data().clone(), true);
  const auto a = floats(attention(x)), b = floats(attention.forward(x, copy, copy));
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
  Tensor padding = Tensor::zeros({2, 5}, DType::boolean);
  padding.slice(1, 2).reshape({5}).slice(3, 5).fill(1);
  const auto c = floats(attention.forward(x, x, x, padding));
  const auto d = floats(attention.forward(x, copy, copy, padding));
  for (std::size_t i = 0; i < c.size(); ++i) EXPECT_NEAR(c[i], d[i], 1e-6);
  EXPECT_NE(a, c);
}

TEST(CrossAttention, DoesNotLookAtPaddedKeys) {
  manual_seed(9);
  MultiheadAttention attention(4, 2);
  const Variable query = random_leaf({1, 2, 4}), memory = random_leaf({1, 3, 4});
  const Tensor padding = Tensor::zeros({1, 3}, DType::boolean);
  padding.reshape({3}).slice(2, 3).fill(1);
  const Variable shorter(memory.data().reshape({3, 4}).slice(0, 2).clone().reshape({1, 2, 4}));
  const auto a = floats(attention.forward(query, memory, memory, padding));
  const auto b = floats(attention.forward(query, shorter, shorter));
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
  const auto message = test::message_of<ShapeError>([&] {
    static_cast<void>(attention.forward(query, memory, memory, Tensor::zeros({1, 3})));
  });
  EXPECT_NE(message.find("bool key_padding_mask [1, 3], not f32[1, 3]"), std::string::npos)
      << message;
}

TEST(CrossAttention, TakesTheMaskOfItsOptionsUnlessItIsGivenAnother) {
  AttentionOptions options;
  options.key_padding_mask = Tensor::zeros({1, 3}, DType::boolean);
  options.key_padding_mask.reshape({3}).slice(2, 3).fill(1);
  MultiheadAttention masked(4, 2, options), plain(4, 2);
  plain.load_state_dict(masked.state_dict());
  const Variable query = random_leaf({1, 2, 4}), memory = random_leaf({1, 3, 4});
  EXPECT_EQ(floats(masked.forward(query, memory, memory)),
            floats(plain.forward(query, memory, memory, options.key_padding_mask)));
  const Tensor nothing = Tensor::zeros({1, 3}, DType::boolean);
  EXPECT_EQ(floats(masked.forward(query, memory, memory, nothing)),
            floats(plain.forward(query, memory, memory, nothing)));
}

TEST(EmbeddingBag, ReducesBagsPassesPaddingOverAndGivesZerosForNone) {
  EmbeddingBag bag(4, 2, BagMode::mean, 1);
  bag.load_state_dict([] {
    StateDict state;
    state.insert("weight", Tensor::from(Floats{1, 2, 100, 100, 3, 6, 5, 4}, {4, 2}));
    return state;
  }());
  const Tensor index = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 1, 3}, {5});
  const Tensor offsets = Tensor::from(std::vector<std::int64_t>{0, 3, 4, 5}, {4});
  EXPECT_EQ(floats(bag.forward(index, offsets)), (Floats{2, 4, 0, 0, 5, 4, 0, 0}));
  const Variable rows(Tensor::from(std::vector<std::int64_t>{0, 2, 3, 3}, {2, 2}));
  EXPECT_EQ(floats(bag(rows)), (Floats{2, 4, 5, 4}));
}

TEST(EmbeddingBag, NamesInvalidArguments) {
  EmbeddingBag bag(4, 2);
  const auto integers = [](const std::vector<std::int64_t>& v) {
    return Tensor::from(v, {static_cast<std::int64_t>(v.size())});
  };
  const auto said = [&](const Tensor& index, const Tensor& offsets, const Variable& factors = {}) {
    return test::message_of<Error>(
        [&] { static_cast<void>(bag.forward(index, offsets, factors)); });
  };
  const auto expect = [](const std::string& message, const char* words) {
    EXPECT_NE(message.find(words), std::string::npos) << message << ", not: " << words;
  };
  expect(said(integers({1, 4}), integers({0})), "index 4, number 1, is outside");
  expect(said(integers({1, 2}), integers({1})), "offset 1, number 0");
  expect(said(integers({1, 2}), integers({0, 2, 1})), "offset 1, number 2");
  expect(said(integers({1, 2}), integers({0, 3})), "offset 3, number 1");
  expect(said(integers({1, 2}), integers({})), "2 entries belong to no bag");
  expect(said(integers({1, 2}), {}), "without offsets takes an index [bags, n]");
  expect(said(integers({1, 2}), integers({0}), random_leaf({2})), "need a sum");
  expect(said(integers({1, 2}), integers({0}), random_leaf({3})), "differ in shape");
  expect(test::message_of<Error>([] { const EmbeddingBag bad(4, 2, BagMode::sum, 4); }),
         "EmbeddingBag: padding_idx");
}

}  // namespace
}  // namespace lockstep::nn
