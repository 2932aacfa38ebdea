#pragma once
#include <cstddef>
#include <memory>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// A model that is a row of layers, each a function of one tensor, though its class is no
/// Sequential. A pipeline can cut it (parallel/pipeline/stages_of.hpp). A model of your own that
/// derives from it, beside Module, can be cut, too.
class Layered {
 public:
  Layered() = default;
  virtual ~Layered() = default;
  Layered(const Layered&) = delete;
  Layered& operator=(const Layered&) = delete;

  [[nodiscard]] virtual std::size_t layer_count() const = 0;
  /// A module that applies layers [first, end), with the model's own parameters and buffers under
  /// the names that they have in the model. All layers one after the other are its forward().
  [[nodiscard]] virtual std::shared_ptr<Module> layers(std::size_t first,
                                                       std::size_t end) const = 0;
};

}  // namespace lockstep::nn
