#include "compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include <lockstep/base/error.hpp>

#include "store.hpp"

namespace lockstep::scaling {

Study read_study(const std::string& name) {
  std::error_code error;
  std::filesystem::path file = name;
  if (std::filesystem::is_directory(file, error)) file /= "scaling.json";
  return study_of(read_study_file(file), file);
}

Study study_of(const Json& content, const std::filesystem::path& file) {
  try {
    Study study{.identity = Identity::from(content.at("study")), .results = {}};
    for (const auto& sample : content.at("samples")) study.results.push_back(Result::from(sample));
    return study;
  } catch (const Json::exception&) {
    throw InputError(file.string() + " is not a file of a scaling study");
  }
}

std::vector<Change> compare(const Study& before, const Study& now, const std::string& across) {
  const std::string differs = difference(before.identity, now.identity, across);
  if (!differs.empty()) {
    std::string hint;
    for (const std::string one : {"deck", "version", "machine"}) {
      if (across.empty() && difference(before.identity, now.identity, one) != differs)
        hint = fmt::format("; --across {} says that this is meant to differ", one);
    }
    throw InputError(
        fmt::format("the two studies cannot be compared: the second has {}{}", differs, hint));
  }
  const auto old_sizes = analyse(before.results), new_sizes = analyse(now.results);
  std::vector<Change> changes;
  for (const Figures& old : old_sizes) {
    const auto same = std::ranges::find_if(new_sizes, [&](const Figures& one) {
      return one.ranks == old.ranks && one.nodes == old.nodes;
    });
    if (same == new_sizes.end() || old.repeats == 0 || same->repeats == 0) continue;
    if (same->oversubscribed != old.oversubscribed) {
      throw InputError(
          fmt::format("the two studies cannot be compared: {} ranks were more than the cores in "
                      "one of them only",
                      old.ranks));
    }
    if (same->batch_size != old.batch_size) {
      throw InputError(fmt::format(
          "the two studies cannot be compared: {} ranks computed batches of {} samples in the "
          "first and of {} in the second",
          old.ranks, old.batch_size, same->batch_size));
    }
    const Scatter &a = old.step_ms, &b = same->step_ms;
    changes.push_back({.ranks = old.ranks,
                       .nodes = old.nodes,
                       .before = a,
                       .now = b,
                       .ratio = b.median / a.median,
                       .is_outside_scatter = old.repeats > 1 && same->repeats > 1 &&
                                             (b.min > a.max || b.max < a.min)});
  }
  if (changes.empty())
    throw InputError("the two studies cannot be compared: no size was measured in both");
  return changes;
}

std::string table(const std::vector<Change>& changes) {
  std::string text = fmt::format("{:>6} {:>5} {:>28} {:>28} {:>7}\n", "ranks", "nodes",
                                 "first, ms a step", "second, ms a step", "ratio");
  const auto range = [](const Scatter& scatter) {
    return fmt::format("{:.3f} ({:.3f} to {:.3f})", scatter.median, scatter.min, scatter.max);
  };
  for (const Change& change : changes) {
    const char* const verdict = !change.is_outside_scatter ? "within the scatter"
                                : change.ratio > 1         ? "slower"
                                                           : "faster";
    text += fmt::format("{:>6} {:>5} {:>28} {:>28} {:>7.3f}  {}\n", change.ranks, change.nodes,
                        range(change.before), range(change.now), change.ratio, verdict);
  }
  return text;
}

}  // namespace lockstep::scaling
