#pragma once
#include <cstddef>
#include <cstdint>
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
/// Where children are Conv2d, [Dropout2d,] MaxPool2d, ReLU in this order, one fused operation
/// (conv2d_max_pool2d_relu) computes them with the same result up to rounding; the same holds for a
/// BatchNorm followed by a ReLU. Between built-in layers images pass in channel blocks;
/// user-defined Modules take and return plain ones.
class Sequential : public Module {
 public:
  using NamedModule = std::pair<std::string, std::shared_ptr<Module>>;

  Sequential() = default;
  explicit Sequential(std::initializer_list<std::shared_ptr<Module>> modules);
  explicit Sequential(std::initializer_list<NamedModule> modules);

  void push_back(std::shared_ptr<Module> module);
  void push_back(std::string name, std::shared_ptr<Module> module);

  Variable forward(const Variable& x) override;

 private:
  /// Rows of children that one operation computes.
  enum class Fusion : std::uint8_t {
    none,
    batch_norm_relu,
    conv_max_pool_relu,
    conv_dropout_max_pool_relu,
  };
  /// One child, or a row of them that is fused.
  struct Stage {
    std::size_t first;  ///< child
    Fusion fusion;
  };
  [[nodiscard]] static std::size_t children_in(Fusion fusion) noexcept;
  /// The row that begins at `child`.
  [[nodiscard]] Fusion fusion_at(std::size_t child) const;
  [[nodiscard]] Variable forward_stage(const Stage& stage, const Variable& x);
  /// Of all stages: as forward, but x may be in channel blocks, and so may be the result.
  [[nodiscard]] Variable forward_stages(const Variable& x);
  static const bool takes_blocks;

  std::vector<Stage> stages_;
};

}  // namespace lockstep::nn
