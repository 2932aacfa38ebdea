#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/optim/plateau.hpp>

namespace lockstep {
class DeckTable;
}

namespace lockstep::optim {

class Optimizer;

/// How the learning rate moves: PyTorch's schedulers, as pure functions of what is done so far.
struct ScheduleOptions {
  enum class Kind : std::uint8_t {
    constant,
    step,             ///< StepLR
    multistep,        ///< MultiStepLR
    exponential,      ///< ExponentialLR
    cosine,           ///< CosineAnnealingLR
    cosine_restarts,  ///< CosineAnnealingWarmRestarts
    polynomial,       ///< PolynomialLR
    warmup_cosine,    ///< the usual one of transformers: up by equal steps, then half a cosine
    one_cycle,        ///< OneCycleLR with cosine annealing
    cyclic,           ///< CyclicLR
    plateau,          ///< ReduceLROnPlateau: the rate follows an evaluation's figure
  };
  enum class CycleMode : std::uint8_t { triangular, triangular2, exp_range };
  enum class Unit : std::uint8_t { epoch, step };

  Kind kind = Kind::constant;
  Unit unit = Unit::epoch;  ///< what k counts: PyTorch's scripts step their scheduler each epoch
  std::int64_t step_size = 30;  ///< step: units between two falls
  double gamma = 0.1;  ///< step, multistep, exponential: factor of each fall; cyclic: of each unit
  std::vector<std::int64_t> milestones;  ///< multistep: units after which the rate falls
  std::int64_t t_max = 100;              ///< cosine: units from the base rate down to eta_min
  double eta_min = 0.0;                  ///< cosine, cosine_restarts: the lowest rate
  std::int64_t t_0 = 10;                 ///< cosine_restarts: units up to the first restart
  std::int64_t t_mult = 1;               ///< cosine_restarts: each run is so many times as long
  double power = 1.0;                    ///< polynomial
  /// Units of warm-up. warmup_cosine counts them in its total; the others but one_cycle, which has
  /// a warm-up of its own, begin after them (SequentialLR with LinearLR).
  std::int64_t warmup = 0;
  double start_factor = 1.0 / 3.0;  ///< where that warm-up begins; not for warmup_cosine
  /// warmup_cosine, one_cycle: units of the run; polynomial: up to a rate of 0, behind a warm-up;
  /// 0: not yet known
  std::int64_t total = 0;
  double min_factor = 0.0;           ///< warmup_cosine: the last rate over the base rate
  double pct_start = 0.3;            ///< one_cycle: share of the total in which the rate rises
  double div_factor = 25.0;          ///< one_cycle: base rate over the first rate
  double final_div_factor = 1e4;     ///< one_cycle: first rate over the last rate
  bool cycle_momentum = true;        ///< one_cycle, cyclic: move the momentum against the rate
  double base_momentum = 0.85;       ///< one_cycle, cyclic: momentum at the highest rate
  double max_momentum = 0.95;        ///< one_cycle, cyclic: momentum at the lowest rate
  double max_lr = 0.0;               ///< cyclic: the highest rate; the base rate is the lowest
  std::int64_t step_size_up = 2000;  ///< cyclic: units in which the rate rises
  std::int64_t step_size_down = 0;   ///< cyclic: in which it falls; 0: as many
  CycleMode mode = CycleMode::triangular;  ///< cyclic: what becomes of the cycles' height
  std::string metric = "loss";             ///< plateau: which figure of the evaluations
  PlateauOptions plateau;  ///< plateau: whether greater is better is known by the metric
};
void declare(DeckTable& table, ScheduleOptions& options);

/// The options for a run of so many epochs and so many steps an epoch: a total of 0 becomes the
/// whole run. Throws InputError where options do not fit together, such as a warm-up that is not
/// shorter than the total, or that is longer than the run, milestones that do not ascend, or
/// lengths below 1.
[[nodiscard]] ScheduleOptions fit_to_run(ScheduleOptions options, std::int64_t epochs,
                                         std::int64_t steps_an_epoch);

/// Why a step or multistep schedule leaves the rate as it is in the whole run; empty if it does
/// not.
[[nodiscard]] std::string why_rate_never_falls(const ScheduleOptions& options, std::int64_t epochs,
                                               std::int64_t steps_an_epoch);

/// The rate after `k` finished units, k >= 0, a pure function, so that a resumed run needs no
/// schedule state (B = base_lr, W = warmup, T = total, f = min_factor, s = start_factor):
///   constant     B
///   step         B gamma^floor(k / step_size)
///   multistep    B gamma^(number of milestones <= k)
///   exponential  B gamma^k
///   cosine       eta_min + (B - eta_min) (1 + cos(pi k / t_max)) / 2, rising again beyond t_max
///   cosine_restarts  cosine's of the units since the last restart, in place of t_max the units
///                between two, t_0 t_mult^n
///   polynomial   B (1 - k / T)^power up to T, then 0
/// each of these with W > 0: B (s + (1 - s) k / W) for k < W, then the above of k - W;
///   warmup_cosine  B (k + 1) / W for k < W, then
///                  B (f + (1 - f) (1 + cos(pi (k - W) / (T - W))) / 2)
///   one_cycle      with c(a, b, x) = b + (a - b) (1 + cos(pi x)) / 2, u = pct_start T - 1:
///                  c(B / div_factor, B, k / u) for k <= u, then
///                  c(B, B / div_factor / final_div_factor, (k - u) / (T - 1 - u))
/// These two stay at their last value beyond T (T - 1).
///   cyclic       B + (max_lr - B) h s, where h rises from 0 to 1 within step_size_up units and
///                falls back within step_size_down, and s, in cycle c = 0, 1 ..., is 1
///                (triangular), 2^-c (triangular2) or gamma^k (exp_range)
///   plateau      B: what ReduceLROnPlateau says, which has a state
///
/// Source: the classes of torch.optim.lr_scheduler that Kind names; Loshchilov, Hutter 2017
/// (arXiv:1608.03983) for the cosine; Smith, Topin 2018 (arXiv:1708.07120) for the one cycle;
/// Smith 2017 (arXiv:1506.01186) for the cycles.
[[nodiscard]] double scheduled_lr(const ScheduleOptions& options, double base_lr, std::int64_t k);

/// The momentum after `k` finished units, if the schedule moves it: one_cycle's runs from
/// max_momentum to base_momentum and back over the same intervals and by the same c; cyclic's is
/// max_momentum - (max_momentum - base_momentum) h s.
[[nodiscard]] std::optional<double> scheduled_momentum(const ScheduleOptions& options,
                                                       std::int64_t k);

/// Gives `optimizer` the rate, and the momentum if the schedule moves it, of the step that follows
/// `epochs` finished epochs and `steps` finished optimizer steps (all epochs together): whichever
/// of the two options.unit names is k. Throws InputError if the schedule moves a momentum that the
/// optimizer does not have.
void apply_schedule(const ScheduleOptions& options, double base_lr, std::int64_t epochs,
                    std::int64_t steps, Optimizer& optimizer);

}  // namespace lockstep::optim
