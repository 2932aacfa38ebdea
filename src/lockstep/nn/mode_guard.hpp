#pragma once
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// While alive, a model and all modules below it train, or evaluate (Module::train); then each is
/// as it was, also one that was not like the model: a frozen BatchNorm. The modules live as long.
class ModeGuard {
 public:
  ModeGuard(Module& model, bool training);
  ~ModeGuard();
  ModeGuard(const ModeGuard&) = delete;
  ModeGuard& operator=(const ModeGuard&) = delete;

 private:
  void change(Module& module);

  bool training_;
  std::vector<Module*> changed_;
};

}  // namespace lockstep::nn
