#pragma once
#include <lockstep/base/trace.hpp>

namespace lockstep {

/// While it lives, this thread computes a layer's forward: traces show its time under the layer's
/// name, and also the backward of operations recorded meanwhile.
class LayerScope {
 public:
  /// `name` is kept by address: a literal, or from trace_name().
  explicit LayerScope(const char* name) noexcept : scope_("forward", name) {
    if (tracing()) enter(name);
  }
  ~LayerScope() {
    if (entered_) innermost() = outer_;
  }
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

  /// This thread's innermost layer; nullptr outside of any.
  [[nodiscard]] static const char* current() noexcept { return innermost(); }

 private:
  static const char*& innermost() noexcept;
  void enter(const char* name) noexcept;

  TraceScope scope_;
  const char* outer_ = nullptr;
  bool entered_ = false;
};

}  // namespace lockstep
