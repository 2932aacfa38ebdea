#pragma once
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

class ReLU : public Module {
 public:
  Variable forward(const Variable& x) override;
};

/// Along `dim`.
class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(int dim = -1) : dim_(dim) {}
  Variable forward(const Variable& x) override;

 private:
  int dim_;
};

}  // namespace lockstep::nn
