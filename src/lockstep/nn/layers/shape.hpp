#pragma once
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// x[N, ...] -> [N, rest].
class Flatten : public Module {
 public:
  Variable forward(const Variable& x) override;
};

}  // namespace lockstep::nn
