#include <lockstep/optim/lbfgs.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <lockstep/base/error.hpp>

namespace lockstep::optim {
namespace {

using Flat = std::vector<double>;

double flat_dot(const Flat& a, const Flat& b) {
  std::array<double, 8> lanes{};
  const std::size_t whole = a.size() / lanes.size() * lanes.size();
  for (std::size_t i = 0; i < whole; i += lanes.size()) {
    for (std::size_t l = 0; l < lanes.size(); ++l) lanes[l] += a[i + l] * b[i + l];
  }
  for (std::size_t i = whole; i < a.size(); ++i) lanes[i - whole] += a[i] * b[i];
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

void flat_add(const Flat& x, double alpha, Flat& y) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += alpha * x[i];
}

Flat scaled_flat(const Flat& x, double factor) {
  Flat result(x);
  for (double& value : result) value *= factor;
  return result;
}

double largest(const Flat& x) {
  double most = 0.0;
  for (const double value : x)
    if (!(std::abs(value) <= most)) most = std::abs(value);  // keeps a NaN
  return most;
}

/// Calls f(pointer to the elements, count) for an f32 or f64 tensor on the host.
template <class F>
void on_elements(const Tensor& t, const F& f) {
  const auto count = static_cast<std::size_t>(t.numel());
  if (t.dtype() == DType::f64) return f(static_cast<double*>(t.data()), count);
  f(static_cast<float*>(t.data()), count);
}

/// The minimum, within bounds, of the cubic through two points with these values and slopes.
double cubic_minimum(double x1, double f1, double g1, double x2, double f2, double g2, double least,
                     double most) {
  const double d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2), square = d1 * d1 - g1 * g2;
  if (!(square >= 0)) return (least + most) / 2;
  const double d2 = std::sqrt(square);
  const double at = x1 <= x2 ? x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
                             : x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2));
  return std::min(std::max(at, least), most);
}

void expect_lbfgs(bool holds, const char* option, double value) {
  if (!holds) throw InputError(fmt::format("LBFGS: {} = {} is out of range", option, value));
}

}  // namespace

/// A point on the search line.
struct LBFGS::Point {
  double t = 0.0, loss = 0.0, slope = 0.0;
  Flat gradient;
};

LBFGS::LBFGS(std::vector<nn::NamedParameter> parameters, const LbfgsOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  expect_lbfgs(options.lr >= 0.0 && std::isfinite(options.lr), "lr", options.lr);
  expect_lbfgs(options.max_iter >= 1, "max_iter", static_cast<double>(options.max_iter));
  expect_lbfgs(options.max_eval >= 0, "max_eval", static_cast<double>(options.max_eval));
  expect_lbfgs(options.tolerance_grad >= 0.0, "tolerance_grad", options.tolerance_grad);
  expect_lbfgs(options.tolerance_change >= 0.0, "tolerance_change", options.tolerance_change);
  expect_lbfgs(options.history_size >= 1, "history_size",
               static_cast<double>(options.history_size));
  if (options_.max_eval == 0) options_.max_eval = options_.max_iter * 5 / 4;
  if (parameters_.empty()) throw Error("LBFGS: it was given no parameters");
  for (const auto& [name, variable] : parameters_) {
    const Tensor& data = variable.data();
    if (data.dtype() != DType::f32 && data.dtype() != DType::f64)
      throw Error(fmt::format("LBFGS: {} is not f32 or f64", name));
    elements_ += static_cast<std::size_t>(data.numel());
  }
}

void LBFGS::zero_grad() const {
  for (const auto& parameter : parameters_) parameter.variable.zero_grad();
}

LBFGS::Flat LBFGS::gather(bool gradients) const {
  Flat flat(elements_);
  double* out = flat.data();
  for (const auto& [name, variable] : parameters_) {
    const Tensor from = gradients ? variable.grad() : variable.data();
    if (from.defined())
      on_elements(from.to(Device{}), [&](const auto* x, std::size_t n) { std::copy_n(x, n, out); });
    out += variable.data().numel();
  }
  return flat;
}

void LBFGS::set(const Flat& x, double t, const Flat& d) const {
  std::size_t at = 0;
  for (const auto& parameter : parameters_) {
    const Tensor& data = parameter.variable.data();
    const bool is_here = data.device() == Device{};
    const Tensor here = is_here ? data : Tensor::empty(data.shape(), data.dtype());
    on_elements(here, [&](auto* out, std::size_t n) {
      for (std::size_t i = 0; i < n; ++i, ++at)
        out[i] = static_cast<std::remove_reference_t<decltype(*out)>>(x[at] + t * d[at]);
    });
    if (!is_here) data.copy_from(here);
    parameter.variable.increment_version();
  }
}

LBFGS::Point LBFGS::evaluate(const Closure& closure, const Flat& x, double t, const Flat& d) {
  set(x, t, d);
  Point point{.t = t, .loss = closure(), .gradient = gather(true)};
  ++func_evals_;
  point.slope = flat_dot(point.gradient, d);
  return point;
}

LBFGS::Point LBFGS::strong_wolfe(const Closure& closure, const Flat& x, const Flat& d,
                                 const Point& start, double t, std::int64_t most_calls) {
  constexpr double c1 = 1e-4, c2 = 0.9;
  constexpr double smallest_bracket = 1e-9;  // PyTorch's, whatever tolerance_change is
  const auto too_high = [&](const Point& p) {
    return p.loss > start.loss + c1 * p.t * start.slope;
  };
  const auto flat_enough = [&](const Point& p) { return std::abs(p.slope) <= -c2 * start.slope; };

  // Two points between which the conditions hold somewhere.
  Point before = start, now = evaluate(closure, x, t, d);
  std::int64_t iteration = 0;
  bool found = false, bracketed = false;
  for (; iteration < most_calls; ++iteration) {
    bracketed = too_high(now) || (iteration > 1 && now.loss >= before.loss);
    found = !bracketed && flat_enough(now);
    bracketed = bracketed || (!found && now.slope >= 0);
    if (found || bracketed) break;
    const double next = cubic_minimum(before.t, before.loss, before.slope, now.t, now.loss,
                                      now.slope, now.t + 0.01 * (now.t - before.t), now.t * 10);
    before = std::move(now);
    now = evaluate(closure, x, next, d);
  }
  if (found) return now;
  if (!bracketed) before = start;
  std::array<Point, 2> bracket{std::move(before), std::move(now)};

  const double length = largest(d);
  bool too_near = false;  // the last point was near an end: too little progress
  std::size_t low = bracket[0].loss <= bracket[1].loss ? 0 : 1, high = 1 - low;
  for (; !found && iteration < most_calls; ++iteration) {
    const auto [least, most] = std::minmax(bracket[0].t, bracket[1].t);
    if ((most - least) * length < smallest_bracket) break;
    t = cubic_minimum(bracket[0].t, bracket[0].loss, bracket[0].slope, bracket[1].t,
                      bracket[1].loss, bracket[1].slope, least, most);
    const double margin = 0.1 * (most - least);
    const bool near = std::min(most - t, t - least) < margin;
    if (near && (too_near || t >= most || t <= least)) {
      t = std::abs(t - most) < std::abs(t - least) ? most - margin : least + margin;
      too_near = false;
    } else {
      too_near = near;
    }
    now = evaluate(closure, x, t, d);
    if (too_high(now) || now.loss >= bracket[low].loss) {
      bracket[high] = std::move(now);
      low = bracket[0].loss <= bracket[1].loss ? 0 : 1;
      high = 1 - low;
      continue;
    }
    if (flat_enough(now)) {
      found = true;
    } else if (now.slope * (bracket[high].t - bracket[low].t) >= 0) {
      bracket[high] = std::move(bracket[low]);
    }
    bracket[low] = std::move(now);
  }
  return std::move(bracket[low]);
}

void LBFGS::remember(const Flat& gradient) {
  Flat y = gradient;
  flat_add(previous_gradient_, -1.0, y);
  Flat s = scaled_flat(d_, t_);
  const double ys = flat_dot(y, s);
  if (!(ys > 1e-10)) return;
  if (std::ssize(history_) == options_.history_size) history_.pop_front();
  h_diag_ = ys / flat_dot(y, y);
  history_.push_back({std::move(y), std::move(s), 1.0 / ys});
}

LBFGS::Flat LBFGS::direction(const Flat& gradient) const {
  Flat d = scaled_flat(gradient, -1.0), alphas(history_.size());
  for (std::size_t i = history_.size(); i-- > 0;) {
    alphas[i] = flat_dot(history_[i].s, d) * history_[i].ro;
    flat_add(history_[i].y, -alphas[i], d);
  }
  for (double& value : d) value *= h_diag_;
  for (std::size_t i = 0; i < history_.size(); ++i)
    flat_add(history_[i].s, alphas[i] - flat_dot(history_[i].y, d) * history_[i].ro, d);
  return d;
}

double LBFGS::step(const Closure& closure) {
  const std::int64_t calls_before = func_evals_;
  const double first_loss = closure();
  ++func_evals_;
  Point at{.loss = first_loss, .gradient = gather(true)};
  if (largest(at.gradient) <= options_.tolerance_grad) return first_loss;

  for (std::int64_t iteration = 1; iteration <= options_.max_iter; ++iteration) {
    if (++n_iter_ > 1) remember(at.gradient);
    d_ = direction(at.gradient);
    t_ = options_.lr;
    if (n_iter_ == 1) {
      double size = 0.0;
      for (const double g : at.gradient) size += std::abs(g);
      t_ *= std::min(1.0, 1.0 / size);
    }
    previous_gradient_ = at.gradient;
    const double loss_before = at.loss;
    at.slope = flat_dot(at.gradient, d_);
    if (at.slope > -options_.tolerance_change) break;

    const Flat x = gather(false);
    const bool last = iteration == options_.max_iter;
    if (options_.line_search_fn == LbfgsOptions::LineSearch::strong_wolfe) {
      at = strong_wolfe(closure, x, d_, at, t_, options_.max_eval - (func_evals_ - calls_before));
      t_ = at.t;
      at.t = 0.0;
      set(x, t_, d_);
    } else if (last) {
      set(x, t_, d_);  // the loss is not needed
    } else {
      at = evaluate(closure, x, t_, d_);
      at.t = 0.0;
    }
    if (last || func_evals_ - calls_before >= options_.max_eval ||
        largest(at.gradient) <= options_.tolerance_grad ||
        largest(d_) * std::abs(t_) <= options_.tolerance_change ||
        std::abs(at.loss - loss_before) < options_.tolerance_change)
      break;
  }
  return first_loss;
}

StateDict LBFGS::state_dict() const {
  StateDict state;
  const auto flat = [](const Flat& values) { return Tensor::from(values, {std::ssize(values)}); };
  Flat y, s, ro;
  for (const Pair& pair : history_) {
    y.insert(y.end(), pair.y.begin(), pair.y.end());
    s.insert(s.end(), pair.s.begin(), pair.s.end());
    ro.push_back(pair.ro);
  }
  const auto rows = std::ssize(history_), width = static_cast<std::int64_t>(elements_);
  state.insert("d", flat(d_));
  state.insert("prev_flat_grad", flat(previous_gradient_));
  state.insert("old_dirs", Tensor::from(y, {rows, width}));
  state.insert("old_stps", Tensor::from(s, {rows, width}));
  state.insert("ro", flat(ro));
  state.insert("t", flat({t_}));
  state.insert("H_diag", flat({h_diag_}));
  state.insert("func_evals", Tensor::from(std::vector<std::int64_t>{func_evals_}, {1}));
  state.insert("n_iter", Tensor::from(std::vector<std::int64_t>{n_iter_}, {1}));
  return state;
}

void LBFGS::load_state_dict(const StateDict& state) {
  const auto flat = [&](const char* name) { return state.at(name).to_vector<double>(); };
  const Flat y = flat("old_dirs"), s = flat("old_stps"), ro = flat("ro");
  const double t = state.at("t").item(), h_diag = state.at("H_diag").item(),
               func_evals = state.at("func_evals").item(), n_iter = state.at("n_iter").item();
  Flat d = flat("d"), gradient = flat("prev_flat_grad");
  if ((!d.empty() && d.size() != elements_) || gradient.size() != d.size() ||
      y.size() != ro.size() * elements_ || s.size() != y.size()) {
    throw Error(
        fmt::format("LBFGS: the state has {} elements, the parameters have {}: the state belongs "
                    "to another model",
                    d.size(), elements_));
  }
  d_ = std::move(d);
  previous_gradient_ = std::move(gradient);
  history_.clear();
  const auto most = std::min(ro.size(), static_cast<std::size_t>(options_.history_size));
  for (std::size_t i = ro.size() - most; i < ro.size(); ++i) {
    const auto row = [&](const Flat& all) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * elements_);
      return Flat(begin, begin + static_cast<std::ptrdiff_t>(elements_));
    };
    history_.push_back({row(y), row(s), ro[i]});
  }
  t_ = t;
  h_diag_ = h_diag;
  func_evals_ = static_cast<std::int64_t>(func_evals);
  n_iter_ = static_cast<std::int64_t>(n_iter);
}

}  // namespace lockstep::optim
