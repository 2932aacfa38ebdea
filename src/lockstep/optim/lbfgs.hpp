#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep::optim {

/// Options of LBFGS; the defaults are those of PyTorch.
struct LbfgsOptions {
  enum class LineSearch : std::uint8_t { none, strong_wolfe };
  double lr = 1.0;             ///< length of a step, or the start of the line search
  std::int64_t max_iter = 20;  ///< directions a step()
  std::int64_t max_eval = 0;   ///< calls of the closure a step(); 0: 5 max_iter / 4
  double tolerance_grad = 1e-7;
  double tolerance_change = 1e-9;
  std::int64_t history_size = 100;  ///< 16 bytes each a parameter's element
  LineSearch line_search_fn = LineSearch::none;
};

/// PyTorch's torch.optim.LBFGS: the quasi-Newton method for a loss that is the same function at
/// each call, of full batches or of a physical model (Nocedal, Wright 2006, algorithms 7.5, 3.5 and
/// 3.6). All sums over parameters are made in double, in an order that depends on their number
/// alone.
///
/// On several ranks the closure must give all of them the same loss and gradients, averaged over
/// the ranks (DistributedDataParallel and all_reduce_scalar): then all ranks make the same calls
/// and take the same steps, bit for bit. It is not an Optimizer, because an Optimizer is given
/// gradients and has no closure; decks do not support it.
class LBFGS {
 public:
  /// Zeroes the gradients, computes loss and gradients, and returns the loss.
  using Closure = std::function<double()>;

  /// Of f32 or f64 parameters, on any device: the sums are the host's. Throws InputError for
  /// options out of range, Error without parameters or for parameters of another dtype.
  explicit LBFGS(std::vector<nn::NamedParameter> parameters, const LbfgsOptions& options = {});

  /// Up to max_iter directions; the closure's first loss. Ends early once the gradient or the
  /// change is within its tolerance. Collective if the closure is.
  double step(const Closure& closure);
  void zero_grad() const;

  /// Number of calls of the closure so far.
  [[nodiscard]] std::int64_t func_evals() const noexcept { return func_evals_; }
  [[nodiscard]] std::int64_t n_iter() const noexcept { return n_iter_; }

  /// A copy of the state on which the next step depends: flat tensors in the parameters' order,
  /// f64.
  [[nodiscard]] StateDict state_dict() const;
  /// Continues from that state with the same bits; of a longer history only the newest part is
  /// used. Throws Error for another number of elements.
  void load_state_dict(const StateDict& state);

 private:
  using Flat = std::vector<double>;
  struct Point;
  struct Pair {
    Flat y, s;  ///< changes of the gradient and of the parameters
    double ro;  ///< 1 / (y s)
  };

  [[nodiscard]] Flat gather(bool gradients) const;
  /// Parameters = x + t d.
  void set(const Flat& x, double t, const Flat& d) const;
  [[nodiscard]] Point evaluate(const Closure& closure, const Flat& x, double t, const Flat& d);
  [[nodiscard]] Point strong_wolfe(const Closure& closure, const Flat& x, const Flat& d,
                                   const Point& start, double t, std::int64_t most_calls);
  void remember(const Flat& gradient);
  [[nodiscard]] Flat direction(const Flat& gradient) const;

  std::vector<nn::NamedParameter> parameters_;
  LbfgsOptions options_;
  std::size_t elements_ = 0;
  std::int64_t func_evals_ = 0, n_iter_ = 0;
  Flat d_, previous_gradient_;
  double t_ = 0.0, h_diag_ = 1.0;
  std::deque<Pair> history_;  ///< newest last
};

}  // namespace lockstep::optim
