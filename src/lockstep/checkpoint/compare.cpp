#include <lockstep/checkpoint/compare.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/weights/weights.hpp>

namespace lockstep {
namespace {

std::string describe_entry(const Tensor& t) {
  return fmt::format("{} {}", name_of(t.dtype()), to_string(t.shape()));
}

/// Describes the differing elements; "" if there are none.
std::string difference(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype())
    return fmt::format("is {} and {}", describe_entry(a), describe_entry(b));
  if (std::memcmp(a.data(), b.data(), a.bytes()) == 0) return "";
  const auto of_a = a.to(DType::f64).to_vector<double>();
  const auto of_b = b.to(DType::f64).to_vector<double>();
  std::int64_t many = 0;
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    const double apart = std::abs(of_a[i] - of_b[i]);
    const bool both_nan = std::isnan(of_a[i]) && std::isnan(of_b[i]);
    largest = std::max(largest, std::abs(of_a[i]));
    if (of_a[i] == of_b[i] || both_nan || apart <= tolerance) continue;
    ++many;
    if (!(apart <= most)) most = apart;  // also true for NaN
  }
  if (many == 0) return tolerance > 0 ? "" : "has equal numbers with different bits";
  return fmt::format("{} of {} elements differ, by at most {:.3g} (largest element {:.3g})", many,
                     of_a.size(), most, largest);
}

class Comparison {
 public:
  explicit Comparison(double tolerance) : tolerance_(tolerance) {}

  void add(const std::string& prefix, const StateDict& a, const StateDict& b) {
    for (const auto& [name, tensor, placement] : a) {
      const auto* other = b.find(name);
      say(prefix + name,
          other ? difference(tensor, other->tensor, tolerance_) : "is only in the first");
      ++compared_;
    }
    for (const auto& entry : b) {
      if (!a.find(entry.name)) say(prefix + entry.name, "is only in the second");
    }
  }
  template <class T>
  void add(const std::string& name, const T& a, const T& b) {
    if (a != b) say(name, fmt::format("is {} and {}", a, b));
  }
  void say(const std::string& name, const std::string& what) {
    if (!what.empty()) lines_.push_back(fmt::format("  {}: {}\n", name, what));
  }
  [[nodiscard]] const std::vector<std::string>& lines() const noexcept { return lines_; }
  [[nodiscard]] std::int64_t compared() const noexcept { return compared_; }

 private:
  double tolerance_;
  std::vector<std::string> lines_;
  std::int64_t compared_ = 0;
};

}  // namespace

CheckpointReport compare_checkpoints(const std::filesystem::path& first,
                                     const std::filesystem::path& second, double tolerance) {
  try {
    const CheckpointContents a = read_whole(first), b = read_whole(second);
    Comparison comparison(tolerance);
    comparison.add("/model/", a.model, b.model);
    if (!a.metadata.empty() && !b.metadata.empty()) {
      comparison.add("/optimizer/", a.optimizer, b.optimizer);
      comparison.add("/train/step", a.train.step, b.train.step);
      comparison.add("/train/epoch", a.train.epoch, b.train.epoch);
      comparison.add("/train/position", a.train.position, b.train.position);
      comparison.add("/train/seed", a.train.seed, b.train.seed);
      if (a.train.sums != b.train.sums || a.train.counts != b.train.counts)
        comparison.say("/train/sums", "differ");
      if (a.train.metrics != b.train.metrics) comparison.say("/train/metrics", "differ");
      if (a.deck != b.deck) comparison.say("/deck", "differs");
    }
    const auto& lines = comparison.lines();
    if (lines.empty()) {
      return {fmt::format("{} and {}: the same ({} tensors{})\n", first.string(), second.string(),
                          comparison.compared(),
                          tolerance > 0 ? fmt::format(", within {}", tolerance) : "")};
    }
    std::string text = fmt::format("{} and {} differ:\n", first.string(), second.string());
    for (const auto& line : lines) text += line;
    return {text, ExitCode::failure};
  } catch (const Error& error) {
    return {std::string(error.what()) + "\n", ExitCode::checkpoint};
  }
}

}  // namespace lockstep
