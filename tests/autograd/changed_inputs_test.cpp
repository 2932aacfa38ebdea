// A value that backward reads may not change in place between forward and backward.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>

#include <support/message_of.hpp>
#include "gradient_check.hpp"
#include "operations/operations.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

/// The gradients' bits: NaN equals itself.
std::vector<std::uint64_t> gradient_bits(const Variable& loss, const Inputs& inputs) {
  for (const Variable& input : inputs) input.zero_grad();
  loss.backward(1.0, true);
  std::vector<std::uint64_t> bits;
  for (const Variable& input : inputs) {
    for (const double g : input.grad().to(DType::f64).to_vector<double>()) {
      bits.push_back(std::bit_cast<std::uint64_t>(g));
    }
  }
  return bits;
}

/// The oracle is the pass itself, which computes with changed memory if nobody says that it has
/// changed.
TEST(ChangedInputs, AreRefusedWhereverTheyWouldChangeAGradient) {
  int refused = 0, harmless = 0;
  std::string needless;  // refusals
  for (const Operation& operation : all_operations()) {
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      const Inputs inputs = make_inputs(operation, DType::f32);
      const Variable y = operation.apply(inputs);
      const Variable loss = weighted_sum(y, random_tensor(y.shape(), 60).to(DType::f32));
      const auto before = gradient_bits(loss, inputs);
      inputs[i].data() *= -0.75;
      const bool matters = gradient_bits(loss, inputs) != before;
      inputs[i].increment_version();
      if (matters) {
        EXPECT_THROW(loss.backward(), Error) << operation.name << ", input " << i;
        ++refused;
      } else {
        try {
          loss.backward();
          ++harmless;
        } catch (const Error&) {
          needless += std::string(operation.name) + " ";
        }
      }
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(harmless, 20);
  // Each reads x in another order, of which the node has a copy.
  EXPECT_EQ(needless, "recurrent_gru_of_unequal_lengths recurrent_lstm_of_unequal_lengths ");
}

Variable leaf(const std::vector<double>& values) { return Variable(Tensor::from(values), true); }

TEST(ChangedInputs, TheErrorNamesOperationInputAndRemedy) {
  Variable w = leaf({2, 3});
  const Variable loss = sum(mul(w, w));
  {
    const NoGradGuard no_grad;
    w -= 1.0;
  }
  const auto message = message_of<Error>([&] { loss.backward(); });
  EXPECT_NE(message.find("backward() of mul needs input 0, f64[2] on host"), std::string::npos)
      << message;
  EXPECT_NE(message.find("Call backward() before the change"), std::string::npos) << message;
}

TEST(ChangedInputs, AResultCountsAsALeafDoes) {
  const Variable w = leaf({2, 3});
  Variable h = mul(w, 2.0);
  const Variable loss = sum(mul(h, h));
  {
    const NoGradGuard no_grad;
    h += 1.0;
  }
  EXPECT_THROW(loss.backward(), Error);
}

TEST(ChangedInputs, AViewCountsWithItsBase) {
  const Variable w = leaf({2, 3});
  Variable row = reshape(w, {1, 2});
  const Variable of_view = sum(mul(row, row)), of_base = sum(mul(w, w));
  {
    const NoGradGuard no_grad;
    row += 1.0;
  }
  EXPECT_EQ(w.data().to_vector<double>(), (std::vector<double>{3, 4}));
  EXPECT_EQ(w.version(), 1U);
  EXPECT_THROW(of_view.backward(), Error);
  EXPECT_THROW(of_base.backward(), Error);
}

TEST(ChangedInputs, ABiasATermAndALookedUpTableMayChange) {
  const Variable x = leaf({1, 2}),
                 table(Tensor::from(std::vector<double>{1, 2, 3, 4}, {2, 2}), true);
  const Variable weight(Tensor::from(std::vector<double>{1, 2, 3, 4}, {2, 2}), true);
  Variable bias = leaf({1, 1}), term = leaf({5, 6});
  const Variable rows = embedding(Tensor::from(std::vector<std::int64_t>{1, 1}), table);
  const Variable loss = sum(linear(reshape(x, {1, 2}), weight, bias) + term) + sum(rows);
  for (const Variable& v : {bias, term, table}) {
    v.data() += 1.0;
    v.increment_version();
  }
  loss.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{4, 6}));
  EXPECT_EQ(table.grad().to_vector<double>(), (std::vector<double>{0, 0, 2, 2}));
}

TEST(ChangedInputs, TheChangeAfterTheLastUseIsAllowed) {
  Variable w = leaf({2, 3});
  for (int step = 0; step < 3; ++step) {
    w.zero_grad();
    sum(mul(w, w)).backward();
    const NoGradGuard no_grad;
    w -= Variable(w.grad()) * 0.25;
  }
  EXPECT_EQ(w.data().to_vector<double>(), (std::vector<double>{0.25, 0.375}));
  EXPECT_EQ(w.version(), 3U);
}

TEST(ChangedInputs, AreRefusedInAPassThatIsRecordedToo) {
  Variable w = leaf({2, 3});
  const Variable loss = sum(mul(w, w));
  {
    const NoGradGuard no_grad;
    w -= 1.0;
  }
  EXPECT_THROW(static_cast<void>(grad(loss, w, {.create_graph = true})), Error);
}

TEST(ChangedInputs, AnotherValueOrDtypeCountsAsAChange) {
  const Variable w = leaf({2, 3}), v = leaf({2, 3});
  const Variable of_w = sum(mul(w, w)), of_v = sum(mul(v, v));
  w.set_value(Tensor::from({1.0, 2.0, 3.0}));
  EXPECT_THROW(of_w.backward(), Error);
  v.set_dtype(DType::f64);  // which it has
  of_v.backward();
  EXPECT_EQ(v.version(), 0U);
}

}  // namespace
}  // namespace lockstep::test
