#pragma once
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// x[N, ...] -> [N, rest].
class Flatten : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// Dimension `dim` of x split into `sizes`, whose product is its extent.
class Unflatten : public Module {
 public:
  Unflatten(int dim, const Shape& sizes) : dim_(dim), sizes_(sizes) {}
  Variable forward(const Variable& x) override;

 private:
  int dim_;
  Shape sizes_;
};

/// x itself.
class Identity : public Module {
 public:
  Variable forward(const Variable& x) override;
};

}  // namespace lockstep::nn
