#pragma once
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/tensor/parallelize_module.hpp>

#include "../ranks.hpp"
#include "../small_models.hpp"

// A tensor-parallel model against the undivided one, which each rank trains beside it.

namespace lockstep::test {

/// A model in f64 from one seed, its plan, and the loss of each step.
struct Divided {
  std::function<std::shared_ptr<nn::Module>()> make;
  ParallelPlan plan;
  std::function<Variable(nn::Module&, int step)> loss;
  /// Called on gradients and the norm's limit; by default nothing.
  std::function<void(nn::Module&, const GroupPtr&)> before_step = {};
};

inline std::shared_ptr<nn::Module> made(const Divided& divided) {
  const nn::DTypeGuard f64(DType::f64);
  nn::manual_seed(7);
  return divided.make();
}

/// The part of `whole` that a rank holds.
inline Tensor part_of(const Tensor& whole, const StateDict::Entry& local) {
  const Placement& placement = local.placement;
  if (!placement.sharded) return whole;
  const Shape offsets = placement.rectangle_offsets(),
              sizes = placement.by_parts(local.tensor.shape());
  Variable part(whole.reshape(placement.by_parts(whole.shape())));
  for (int d = 0; d < sizes.dims(); ++d) part = narrow(part, d, offsets[d], sizes[d]);
  return part.data().reshape(local.tensor.shape());
}

inline std::vector<std::pair<std::string, Tensor>> gradients_of(const nn::Module& model) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& [name, variable] : model.named_parameters())
    all.emplace_back(name, variable.grad().clone());
  return all;
}

/// Losses, gradients and parameters over some steps are those of the undivided model.
inline void expect_as_undivided(const GroupPtr& group, const Divided& divided, int steps = 3) {
  const std::string where =
      "rank " + std::to_string(group->rank()) + " of " + std::to_string(group->size());
  const auto whole = made(divided), part = made(divided);
  parallelize_module(*part, group, divided.plan);
  const auto expect_parts = [&](const std::vector<std::pair<std::string, Tensor>>& actual,
                                const auto& expected_of, double tolerance,
                                const std::string& what) {
    const StateDict state = part->state_dict();
    for (const auto& [name, tensor] : actual) {
      const Tensor expected = part_of(expected_of(name), *state.find(name));
      EXPECT_LE(max_difference(tensor, expected), tolerance)
          << what << " " << name << ", " << where;
    }
  };
  const auto parameters = [&](const nn::Module& model) {
    std::vector<std::pair<std::string, Tensor>> all;
    for (const auto& [name, variable] : model.named_parameters())
      all.emplace_back(name, variable.data());
    return all;
  };
  const StateDict state = whole->state_dict();
  const auto value_of = [&](const std::string& name) { return state.at(name); };
  expect_parts(parameters(*part), value_of, 0.0, "initial");

  optim::AdamW of_whole(whole->named_parameters(), {.lr = 0.02}),
      of_part(part->named_parameters(), {.lr = 0.02});
  for (int step = 0; step < steps; ++step) {
    const auto run = [&](nn::Module& model, optim::Optimizer& optimizer) {
      const nn::RandomContextGuard context({.seed = 3, .step = static_cast<std::uint32_t>(step)});
      optimizer.zero_grad();
      const Variable loss = divided.loss(model, step);
      loss.backward();
      return loss.item();
    };
    const double expected = run(*whole, of_whole), actual = run(*part, of_part);
    EXPECT_NEAR(actual, expected, 1e-10) << "loss " << step << ", " << where;
    const auto gradients = gradients_of(*whole);
    const auto gradient_of = [&](const std::string& name) {
      for (const auto& [other, gradient] : gradients)
        if (other == name) return gradient;
      return Tensor();
    };
    expect_parts(gradients_of(*part), gradient_of, 1e-10,
                 "gradient " + std::to_string(step) + " of");
    if (divided.before_step) {
      divided.before_step(*whole, nullptr);
      divided.before_step(*part, group);
    }
    of_whole.step();
    of_part.step();
  }
  expect_parts(parameters(*part), value_of, 1e-10, "final");
}

}  // namespace lockstep::test
