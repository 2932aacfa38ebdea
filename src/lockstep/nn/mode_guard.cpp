#include <lockstep/nn/mode_guard.hpp>

namespace lockstep::nn {

ModeGuard::ModeGuard(Module& model, bool training) : training_(training) { change(model); }

ModeGuard::~ModeGuard() {
  for (Module* const module : changed_) module->training_ = !training_;
}

void ModeGuard::change(Module& module) {
  if (module.training_ != training_) {
    changed_.push_back(&module);
    module.training_ = training_;
  }
  for (const auto& [name, child] : module.children()) change(*child);
}

}  // namespace lockstep::nn
