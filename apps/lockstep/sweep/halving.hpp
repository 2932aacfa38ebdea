#pragma once
// Successive halving: arithmetic alone. Jamieson and Talwalkar, "Non-stochastic best arm
// identification and hyperparameter optimization", AISTATS 2016; rungs as in the inner loop of
// Hyperband, Li et al., JMLR 18 (2018), algorithm 1: n_i = floor(n / eta^i) trials with a budget
// of r eta^i each.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::sweep {

/// Whether a smaller or a larger metric is better.
enum class Better : std::uint8_t { smaller, larger };

struct Halving {
  enum class Unit : std::uint8_t { epochs, steps };
  Unit unit = Unit::epochs;
  std::int64_t first = 1;  ///< budget of the first rung
  int eta = 3;             ///< one of eta trials is promoted, to eta times the budget

  [[nodiscard]] const char* unit_in_words() const noexcept {
    return unit == Unit::epochs ? "epochs" : "steps";
  }
};
/// Parses "epochs:1" or "steps:500". Throws InputError.
[[nodiscard]] Halving parse_halving(const std::string& text, int eta);

struct Rung {
  std::size_t trials = 0;   ///< the most that it has
  std::int64_t budget = 0;  ///< of each, from its beginning; 0: the deck's whole training
  bool operator==(const Rung&) const = default;
};

/// The rungs for `trials` trials of at most `whole` units (0: not known). The last one is the whole
/// training: of the trials that are left when eta would leave none, or when the next budget would
/// be the whole training.
[[nodiscard]] std::vector<Rung> rungs(std::size_t trials, const Halving& halving,
                                      std::int64_t whole);

/// The `count` best of the metrics, or all that are there if those are fewer: indices, best first.
/// Of equal metrics the one with the smaller index is better; a trial without one never counts.
[[nodiscard]] std::vector<std::size_t> best(const std::vector<std::optional<double>>& metrics,
                                            Better better, std::size_t count);

}  // namespace lockstep::sweep
