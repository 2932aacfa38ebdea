#include <lockstep/train/task/confusion.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::train {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? std::nan("") : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Confusion::Confusion(std::int64_t classes, std::vector<std::int64_t> counts)
    : classes_(classes), counts_(std::move(counts)) {}

std::int64_t Confusion::samples_of(std::int64_t is) const {
  std::int64_t samples = 0;
  for (std::int64_t c = 0; c < classes_; ++c) samples += count(is, c);
  return samples;
}

std::int64_t Confusion::taken_for(std::int64_t taken_for) const {
  std::int64_t samples = 0;
  for (std::int64_t c = 0; c < classes_; ++c) samples += count(c, taken_for);
  return samples;
}

double Confusion::recall(std::int64_t is) const { return share(count(is, is), samples_of(is)); }

double Confusion::precision(std::int64_t taken_for) const {
  return share(count(taken_for, taken_for), this->taken_for(taken_for));
}

std::string Confusion::table(const std::vector<std::string>& names) const {
  constexpr std::int64_t widest = 20;
  std::size_t name_width = 5, count_width = 1;
  for (const auto& name : names) name_width = std::max(name_width, name.size() + 4);
  for (const auto n : counts_) count_width = std::max(count_width, std::to_string(n).size());
  const bool shows_rows = classes_ <= widest;
  std::string text = fmt::format("{:<{}}  recall  precision  samples{}\n", "class", name_width,
                                 shows_rows ? "  predicted as class 0, 1, ..." : "");
  for (std::int64_t c = 0; c < classes_; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const std::string name =
        at < names.size() ? fmt::format("{:>2}  {}", c, names[at]) : fmt::format("{:>2}", c);
    text += fmt::format("{:<{}}  {:>6.4f}  {:>9.4f}  {:>7}", name, name_width, recall(c),
                        precision(c), samples_of(c));
    for (std::int64_t p = 0; shows_rows && p < classes_; ++p)
      text += fmt::format("  {:>{}}", count(c, p), count_width);
    text += '\n';
  }
  return text;
}

Confusion WithConfusion::take(NamedFigures& figures) const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes_ * classes_));
  const auto first = figures.end() - std::ssize(counts);
  std::transform(first, figures.end(), counts.begin(),
                 [](const auto& figure) { return static_cast<std::int64_t>(figure.second); });
  figures.erase(first, figures.end());
  return {classes_, std::move(counts)};
}

std::vector<Metric> WithConfusion::metrics(const Dataset& data) const {
  std::vector<Metric> all = task_.metrics(data);
  const Metric one{"", ReduceOp::sum, [](double count) { return count; }};
  all.insert(all.end(), static_cast<std::size_t>(classes_ * classes_), one);
  return all;
}

void WithConfusion::measure(const Tensor& output, const Batch& batch,
                            std::span<double> figures) const {
  const auto squares = static_cast<std::size_t>(classes_ * classes_);
  const auto counts = figures.last(squares);
  task_.measure(output, batch, figures.first(figures.size() - squares));
  const auto scores = output.to_vector<float>();
  const auto targets = batch.targets().to_vector<std::int64_t>();
  for (std::size_t n = 0; n < targets.size(); ++n) {
    const auto row = scores.begin() + static_cast<std::ptrdiff_t>(n) * classes_;
    const auto taken_for = std::max_element(row, row + classes_) - row;
    counts[static_cast<std::size_t>(targets[n] * classes_ + taken_for)] += 1;
  }
}

}  // namespace lockstep::train
