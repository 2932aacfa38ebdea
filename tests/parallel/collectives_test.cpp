// Collectives that differentiate: values, first and second derivatives are those of the same map
// written with ordinary operations on all ranks' inputs at once.
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/parallel/collectives.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::max_difference;
using test::wave;

constexpr std::int64_t columns = 3;

Variable row(const Variable& x, int r) { return narrow(x, 0, r, 1); }

Variable sum_of(const std::vector<Variable>& inputs) {
  Variable total = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) total = total + inputs[i];
  return total;
}

/// A collective, and rank r's output of it by ordinary operations on all ranks' inputs, each of
/// shape [size, columns].
struct Case {
  const char* name;
  std::function<PendingVariable(const Variable&, const GroupPtr&)> start;
  std::function<Variable(const std::vector<Variable>&, int)> of_all;
};

std::vector<Case> cases() {
  const auto scaled = [](const Variable& x, std::size_t size) {
    return x * (1.0 / static_cast<double>(size));
  };
  return {
      {"all_reduce", [](const auto& x, const auto& g) { return start_all_reduce(x, g); },
       [](const auto& inputs, int) { return sum_of(inputs); }},
      {"all_reduce_avg",
       [](const auto& x, const auto& g) { return start_all_reduce(x, g, ReduceOp::avg); },
       [=](const auto& inputs, int) { return scaled(sum_of(inputs), inputs.size()); }},
      {"all_gather", [](const auto& x, const auto& g) { return start_all_gather(x, g); },
       [](const auto& inputs, int) {
         const auto size = static_cast<std::int64_t>(inputs.size());
         return reshape(concat(inputs), {size, size, columns});
       }},
      {"reduce_scatter", [](const auto& x, const auto& g) { return start_reduce_scatter(x, g); },
       [](const auto& inputs, int r) { return reshape(row(sum_of(inputs), r), {columns}); }},
      {"reduce_scatter_avg",
       [](const auto& x, const auto& g) { return start_reduce_scatter(x, g, ReduceOp::avg); },
       [=](const auto& inputs, int r) {
         return scaled(reshape(row(sum_of(inputs), r), {columns}), inputs.size());
       }},
      {"all_to_all", [](const auto& x, const auto& g) { return start_all_to_all(x, g); },
       [](const auto& inputs, int r) {
         std::vector<Variable> rows;
         for (const Variable& x : inputs) rows.push_back(row(x, r));
         return concat(rows);
       }},
      {"broadcast",
       [](const auto& x, const auto& g) { return start_broadcast(x, g->size() - 1, g); },
       [](const auto& inputs, int) { return inputs.back() * 1.0; }},
      {"reduce", [](const auto& x, const auto& g) { return start_reduce(x, g->size() - 1, g); },
       [](const auto& inputs, int r) {
         const bool root = r + 1 == static_cast<int>(inputs.size());
         return sum_of(inputs) * (root ? 1.0 : 0.0);
       }},
      {"shift", [](const auto& x, const auto& g) { return start_shift(x, 1, g); },
       [](const auto& inputs, int r) {
         const auto size = static_cast<int>(inputs.size());
         return inputs[static_cast<std::size_t>((r + size - 1) % size)] * 1.0;
       }},
      {"shift_back_far",
       [](const auto& x, const auto& g) { return start_shift(x, -2 - g->size(), g); },
       [](const auto& inputs, int r) {
         return inputs[static_cast<std::size_t>(r + 2) % inputs.size()] * 1.0;
       }},
  };
}

Tensor input_of(int rank, int size) { return wave({size, columns}, 0.3 + rank); }

/// Nonlinear in y, and another function on each rank.
Variable loss_of(const Variable& y, int rank) {
  return sum(pow(y, 3.0) * Variable(wave(y.data().shape(), 2.0 + rank)));
}
Variable penalty_of(const Variable& gradient, int rank) {
  return sum(pow(gradient, 2.0) * Variable(wave(gradient.data().shape(), 5.0 + rank)));
}

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, AndTheirFirstAndSecondDerivativesAreThoseOfOrdinaryOperations) {
  const int size = GetParam();
  for (const Case& each : cases()) {
    // All ranks at once: the losses' sum, its gradients, and the gradients of a function of these.
    std::vector<Variable> inputs;
    for (int r = 0; r < size; ++r) inputs.emplace_back(input_of(r, size), true);
    std::vector<Tensor> values;
    std::vector<Variable> losses, penalties;
    for (int r = 0; r < size; ++r) {
      const Variable y = each.of_all(inputs, r);
      values.push_back(y.data());
      losses.push_back(loss_of(y, r));
    }
    const auto first = grad(sum_of(losses), inputs, {.create_graph = true, .allow_unused = true});
    for (int r = 0; r < size; ++r) {
      const Variable& g = first[static_cast<std::size_t>(r)];
      if (g.defined()) penalties.push_back(penalty_of(g, r));
    }
    sum_of(penalties).backward();

    test::on_ranks(size, [&](const auto& group) {
      const auto rank = static_cast<std::size_t>(group->rank());
      const std::string where =
          std::string(each.name) + ", rank " + std::to_string(rank) + " of " + std::to_string(size);
      const Variable x(input_of(group->rank(), size), true);
      const Variable y = each.start(x, group).wait();
      EXPECT_LE(max_difference(y.data(), values[rank]), 1e-14) << where;
      const Variable slope = grad(loss_of(y, group->rank()), x, {.create_graph = true});
      const auto expect_near = [&](const Tensor& actual, const Tensor& expected, const char* what) {
        const Tensor zeros = Tensor::zeros(actual.shape(), actual.dtype(), actual.device());
        EXPECT_LE(max_difference(actual, expected.defined() ? expected : zeros), 1e-12)
            << what << ", " << where;
      };
      expect_near(slope.data(), first[rank].defined() ? first[rank].data() : Tensor(), "first");
      penalty_of(slope, group->rank()).backward();
      expect_near(x.grad(), inputs[rank].grad(), "second");
    });
  }
}

TEST_P(Collectives, StartedTogetherOverlapAndAccumulate) {
  const int size = GetParam();
  test::on_ranks(size, [&](const auto& group) {
    const Variable x(input_of(group->rank(), size), true);
    PendingVariable a = start_all_reduce(x, group), b = start_all_to_all(x, group);
    const Variable between = x * 2.0;
    const Variable first = a.wait(), second = b.wait();
    sum(first + second + between).backward();
    const double expected = size + 1.0 + 2.0;
    EXPECT_EQ(x.grad().to_vector<double>(),
              std::vector<double>(static_cast<std::size_t>(size * columns), expected));
    EXPECT_NE(test::message_of<Error>([&] { static_cast<void>(a.wait()); }).find("call it once"),
              std::string::npos);
  });
}

TEST_P(Collectives, SendAndReceiveReturnTheGradientToTheSender) {
  const int size = GetParam();
  if (size == 1) return;
  test::on_ranks(size, [&](const auto& group) {
    const int rank = group->rank();
    // A pipeline: each rank squares what it has received and passes it on.
    const Variable x(Tensor::full({4}, 1.1, DType::f64, test::asked_for_device()), rank == 0);
    const Variable received =
        rank == 0 ? x : receive({4}, rank - 1, group, 0, DType::f64, test::asked_for_device());
    const Variable y = pow(received, 2.0);
    const Variable root = rank + 1 == size ? sum(y) : send(y, rank + 1, group);
    EXPECT_EQ(root.data().shape(), Shape{});
    root.backward();
    if (rank == 0) {
      const double power = std::pow(2.0, size);
      EXPECT_NEAR(x.grad().to_vector<double>()[3], power * std::pow(1.1, power - 1), 1e-9 * power);
    }
    group->barrier();
    // Both directions at once; nothing requires a gradient, and the messages still match.
    if (rank < 2) {
      const Variable plain(
          Tensor::full({70'000}, 1.0 + rank, DType::f64, test::asked_for_device()));
      const Variable there = rank == 0 ? send(plain, 1, group) : Variable();
      const Variable back =
          receive({70'000}, 1 - rank, group, 0, DType::f64, test::asked_for_device());
      const Variable sent = rank == 1 ? send(plain, 0, group) : there;
      (sum(back) + sent).backward();
    }
  });
}

TEST_P(Collectives, RefuseReductionsThatAreNotLinear) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const Variable x(input_of(group->rank(), group->size()), true);
    const auto message = [](const auto& call) { return test::message_of<InputError>(call); };
    EXPECT_NE(message([&] {
                static_cast<void>(all_reduce(x, group, ReduceOp::max));
              }).find("only sum and avg differentiate, not max"),
              std::string::npos);
    EXPECT_NE(message([&] { static_cast<void>(all_gather(x, nullptr)); }).find("needs a group"),
              std::string::npos);
    EXPECT_THROW(static_cast<void>(reduce_scatter(Variable(Tensor::full({}, 1.0)), group)),
                 ShapeError);
    const NoGradGuard no_grad;
    EXPECT_FALSE(all_reduce(x, group).requires_grad());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
