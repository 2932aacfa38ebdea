#pragma once
#include <utility>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/node.hpp>

namespace lockstep {

/// Records a linear function of one tensor: its gradient is its transpose, whose own gradient is
/// the function again, so one pair of kernels serves derivatives of any order. A Map has
///   void apply(const Tensor& x, bool accumulate, const Tensor& y) const;      // y (+)= M x
///   void transpose(const Tensor& y, bool accumulate, const Tensor& x) const;  // x (+)= M^T y
///   static const char* name() noexcept;
/// and may have mixes_layouts, as a Node, and saves_input if it depends on x's value. One that is
/// its own transpose says so in place of it:
///   static constexpr bool symmetric = true;
template <class Map, bool transposed = false>
class LinearMapNode;

namespace detail {

/// to (+)= M from, or M^T from.
template <bool transposed, class Map>
void apply_map(const Map& map, const Tensor& from, bool accumulate, const Tensor& to) {
  if constexpr (transposed && !requires { requires Map::symmetric; }) {
    map.transpose(from, accumulate, to);
  } else {
    map.apply(from, accumulate, to);
  }
}

}  // namespace detail

/// M x, or M^T x, written to y.
template <class Map, bool transposed = false>
[[nodiscard]] Variable linear_map(const Map& map, const Variable& x, Tensor y) {
  detail::apply_map<transposed>(map, x.data(), false, y);
  return record<LinearMapNode<Map, transposed>>(std::move(y), {&x}, map);
}

template <class Map, bool transposed>
class LinearMapNode : public PooledNode<LinearMapNode<Map, transposed>> {
 public:
  static constexpr bool mixes_layouts = requires { requires Map::mixes_layouts; };
  static constexpr bool reads_inputs = false, reads_outputs = false;
  static constexpr bool saves_input = requires { requires Map::saves_input; };
  static constexpr std::uint32_t saved_inputs = saves_input ? 1 : 0;

  explicit LinearMapNode(Map map) : map_(std::move(map)) {}

  void backward(const Tensor& grad_output) override {
    const auto x = this->grad_target(0);
    if (x.wanted) detail::apply_map<!transposed>(map_, grad_output, x.accumulate, x.tensor);
  }
  void differentiate(Differentiation& d) override {
    d.give(0, linear_map<Map, !transposed>(map_, d.grad_output(),
                                           Tensor::empty_like(this->input(0).data())));
  }
  [[nodiscard]] const char* name() const noexcept override { return map_.name(); }

 private:
  Map map_;
};

}  // namespace lockstep
