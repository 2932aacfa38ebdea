#pragma once
#include <memory>

#include <lockstep/nn/layers/shape.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// main(x) + shortcut(x), children "main" and "shortcut"; the results have the same shape, or
/// shapes that broadcast.
class Residual : public Module {
 public:
  explicit Residual(std::shared_ptr<Module> main,
                    std::shared_ptr<Module> shortcut = std::make_shared<Identity>());
  Variable forward(const Variable& x) override;
};

}  // namespace lockstep::nn
