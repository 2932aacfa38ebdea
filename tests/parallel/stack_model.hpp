#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/nn/module_list.hpp>

#include "small_models.hpp"

// A model of several units for the tests of sharded training.

namespace lockstep::test {

/// x + tanh(W x + b)
struct StackBlock : nn::Module {
  StackBlock(double seed, std::int64_t width, DType dtype)
      : W(register_parameter("W", wave({width, width}, seed, dtype))),
        b(register_parameter("b", wave({width}, seed + 1, dtype))) {}
  Variable forward(const Variable& x) override { return x + test::tanh(linear(x, W, b)); }

  Variable W, b;
};

/// Blocks between two linear maps. The last block's matrix is smaller than 8 ranks' alignment, the
/// widths do not divide by any number of ranks, and one parameter is not used.
struct Stack : nn::Module {
  explicit Stack(double seed = 0.5, int blocks = 3, DType dtype = DType::f64)
      : into(register_parameter("into", wave({7, 6}, seed, dtype))),
        out(register_parameter("out", wave({4, 7}, seed + 1, dtype))),
        unused(register_parameter("unused", wave({3}, seed + 2, dtype))),
        h(register_module("h", std::make_shared<nn::ModuleList>())) {
    for (int i = 0; i < blocks; ++i)
      h->push_back(std::make_shared<StackBlock>(seed + 3 * i, 7, dtype));
  }
  Variable forward(const Variable& x) override {
    Variable y = linear(x, into, {});
    for (const auto& [name, block] : h->children()) y = (*block)(y);
    return linear(y, out, {});
  }

  Variable into, out, unused;
  std::shared_ptr<nn::ModuleList> h;
};

/// The output of the last block, or, while `early`, of the first one, of which the others see
/// nothing.
struct TwoOutputs : Stack {
  explicit TwoOutputs(int blocks = 3) : Stack(0.5, blocks) {}
  Variable forward(const Variable& x) override {
    const Variable first = (*h->children()[0].second)(linear(x, into, {}));
    Variable y = first;
    for (std::size_t i = 1; i < h->size(); ++i) y = (*h->children()[i].second)(y);
    return linear(early ? first : y, out, {});
  }

  bool early = false;
};

/// Mean cross entropy; of a batch without rows zero, which depends on all that the output does.
template <class Model>
Variable loss_of_share(Model& model, const Batch& batch) {
  const Variable y = model.forward(Variable(batch.x));
  return batch.rows() == 0 ? sum(y) : cross_entropy(y, batch.target);
}

inline double weight_of(const Batch& share, const Batch& whole) {
  return static_cast<double>(share.rows()) / static_cast<double>(whole.rows());
}

}  // namespace lockstep::test
