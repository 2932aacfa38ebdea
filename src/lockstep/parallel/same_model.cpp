#include <lockstep/parallel/same_model.hpp>

#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

/// One line an entry, so that the first differing line is the sentence to show.
std::string manifest_of(const nn::Module& module, const std::string& settings) {
  std::set<std::string> trained;
  for (const auto& [name, variable] : module.named_parameters()) {
    if (variable.requires_grad()) trained.insert(name);
  }
  std::string lines;
  for (const auto& [name, tensor, placement] : module.state_dict()) {
    lines += fmt::format("{} '{}' {}{}\n", trained.contains(name) ? "parameter" : "untrained", name,
                         name_of(tensor.dtype()), to_string(tensor.shape()));
  }
  return lines + settings + "\n";
}

/// The first line in which two manifests differ, from each.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream lines_a(a), lines_b(b);
  for (;;) {
    std::string line_a, line_b;
    const bool more_a = static_cast<bool>(std::getline(lines_a, line_a));
    const bool more_b = static_cast<bool>(std::getline(lines_b, line_b));
    if (line_a != line_b || !more_a || !more_b) {
      return {more_a ? line_a : "nothing more", more_b ? line_b : "nothing more"};
    }
  }
}

}  // namespace

void expect_same_model(ProcessGroup& group, const nn::Module& module, const std::string& settings) {
  const std::string mine = manifest_of(module, settings);
  const std::string zeros = broadcast_object(group, mine, 0);
  std::string difference;
  if (mine != zeros) {
    const auto [on_zero, here] = first_difference(zeros, mine);
    difference = fmt::format("rank 0 has {}, where rank {} of {} has {}", on_zero, group.rank(),
                             group.size(), here);
  }
  const auto failure = first_failure(group, difference);
  if (!failure) return;
  throw Error(
      fmt::format("DistributedDataParallel: the ranks built different models: {}. Build the same "
                  "model with the same options on every rank.",
                  failure->message));
}

void broadcast_state(ProcessGroup& group, const nn::Module& module) {
  for (const auto& entry : module.state_dict()) group.broadcast(entry.tensor, 0).wait();
}

}  // namespace lockstep
