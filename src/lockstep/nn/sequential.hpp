#pragma once
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// Modules applied one after another, as PyTorch's Sequential: unnamed ones are called "0", "1",
/// ...
///
/// Where children follow each other as Conv2d, [Dropout2d,] MaxPool2d, ReLU, their product is
/// computed by one fused operation (conv2d_max_pool2d_relu) with the same result up to rounding; so
/// are a BatchNorm and the ReLU behind it. Images pass from child to child in channel blocks where
/// those take them (Module::forward_blocked).
class Sequential : public Module {
 public:
  using NamedModule = std::pair<std::string, std::shared_ptr<Module>>;

  Sequential() = default;
  explicit Sequential(std::initializer_list<std::shared_ptr<Module>> modules);
  explicit Sequential(std::initializer_list<NamedModule> modules);

  void push_back(std::shared_ptr<Module> module);
  void push_back(std::string name, std::shared_ptr<Module> module);

  Variable forward(const Variable& x) override;
  Variable forward_blocked(const Variable& x) override;

 private:
  /// How many children from `child` on one fused operation covers; 1 if none does.
  [[nodiscard]] std::size_t fusible_from(std::size_t child) const;
  [[nodiscard]] Variable forward_fused(std::size_t child, std::size_t count, const Variable& x);

  std::vector<std::size_t> stages_;  ///< children in each stage, in order
};

}  // namespace lockstep::nn
