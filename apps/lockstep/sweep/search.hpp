#pragma once
// Which trials a sweep has: arithmetic alone, the same on every machine.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::sweep {

/// Keys ("optimizer.lr") and values in TOML of one trial.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// "optimizer.lr=0.1 train.seed=2", for people.
[[nodiscard]] std::string in_words(const Settings& settings);

/// Values of one key, in the order given.
struct Axis {
  std::string key;
  std::vector<std::string> values;
};
/// Parses "optimizer.lr=0.1,0.01". A comma in quotes or brackets belongs to a value. Throws
/// InputError.
[[nodiscard]] Axis parse_grid(const std::string& text);

/// Values of one key drawn at random from [low, high].
struct Distribution {
  enum class Kind : std::uint8_t { log, uniform, integer };
  std::string key;
  Kind kind = Kind::uniform;
  double low = 0, high = 1;

  /// Value number `draw`, in TOML; numbers have six significant digits. A function of the key, the
  /// seed and the number alone: other keys and more draws change nothing.
  [[nodiscard]] std::string value(std::uint64_t seed, int draw) const;
};
/// Parses "optimizer.lr=log:1e-4:1e-1"; "uniform" and "int" are the other kinds. Throws InputError.
[[nodiscard]] Distribution parse_random(const std::string& text);

/// Every combination of the grid, the last key fastest, with each of `draws` draws. Throws
/// InputError: a key given twice, draws without a number of them, or more than most_trials.
inline constexpr std::int64_t most_trials = 10'000;
[[nodiscard]] std::vector<Settings> all_settings(const std::vector<Axis>& grid,
                                                 const std::vector<Distribution>& random, int draws,
                                                 std::uint64_t seed);

}  // namespace lockstep::sweep
