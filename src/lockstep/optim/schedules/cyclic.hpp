#pragma once
#include <optional>

#include <lockstep/optim/schedules/formula.hpp>

namespace lockstep::optim {

/// B + (max_lr - B) h, where h rises from 0 to s within step_size_up units and falls back within
/// step_size_down; in cycle c = 0, 1 ... s is 1 (triangular), 2^-c (triangular2) or gamma^k
/// (exp_range). The momentum is max_momentum - (max_momentum - base_momentum) h.
/// Source: Smith 2017 (arXiv:1506.01186).
struct CyclicLR {
  enum class Mode : std::uint8_t { triangular, triangular2, exp_range };

  double max_lr = 0.0;               ///< the highest rate; the base rate is the lowest
  std::int64_t step_size_up = 2000;  ///< units in which the rate rises
  std::int64_t step_size_down = 0;   ///< in which it falls; 0: as many as it rises
  Mode mode = Mode::triangular;      ///< how the cycles' amplitude changes
  double gamma = 1.0;                ///< exp_range: factor of the height a unit
  bool cycle_momentum = true;        ///< move the momentum against the rate
  double base_momentum = 0.8;        ///< momentum at the highest rate
  double max_momentum = 0.9;         ///< momentum at the lowest rate
  LinearWarmup warmup;

  void fit(const ScheduledRun&) const {
    expect_at_least("step_size_up", step_size_up, 1);
    expect_at_least("step_size_down", step_size_down, 0);
    if (!(max_lr > 0.0))
      refuse_schedule("kind = \"cyclic\" needs max_lr, the highest rate, above 0.");
  }
  [[nodiscard]] double lr(double base_lr, std::int64_t k) const {
    return base_lr + (max_lr - base_lr) * height(k);
  }
  [[nodiscard]] std::optional<double> momentum(std::int64_t k) const {
    if (!cycle_momentum) return std::nullopt;
    return max_momentum - (max_momentum - base_momentum) * height(k);
  }

 private:
  /// 0 at the base rate, 1 at max_lr.
  [[nodiscard]] double height(std::int64_t k) const {
    const std::int64_t down = step_size_down > 0 ? step_size_down : step_size_up;
    const std::int64_t cycle = k / (step_size_up + down), at = k % (step_size_up + down);
    const double height = at <= step_size_up ? number(at) / number(step_size_up)
                                             : number(step_size_up + down - at) / number(down);
    switch (mode) {
      case Mode::triangular:
        break;
      case Mode::triangular2:
        return height * std::exp2(-number(cycle));
      case Mode::exp_range:
        return height * std::pow(gamma, number(k));
    }
    return height;
  }
};

inline void declare(DeckTable& table, CyclicLR& options) {
  using Mode = CyclicLR::Mode;
  table.key("max_lr", options.max_lr,
            {.doc = "the highest rate; optimizer.lr is the lowest", .min = 0.0});
  table.key("step_size_up", options.step_size_up,
            {.doc = "units in which the rate rises", .unit = unit_key, .min = 1});
  table.key("step_size_down", options.step_size_down,
            {.doc = "units in which it falls; 0: as many as it rises", .unit = unit_key, .min = 0});
  table.choice("mode", options.mode,
               {{"triangular", Mode::triangular},
                {"triangular2", Mode::triangular2},
                {"exp_range", Mode::exp_range}},
               "whether cycles keep their amplitude, halve it, or multiply it by gamma each unit");
  table.key(
      "gamma", options.gamma,
      {.doc = "mode exp_range: factor of the amplitude per unit", .min = 0.0, .above_min = true});
  declare_cycle_of_momentum(table, options);
  declare(table, options.warmup);
}

}  // namespace lockstep::optim
