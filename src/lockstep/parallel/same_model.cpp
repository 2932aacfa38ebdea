#include <lockstep/parallel/same_model.hpp>

#include <set>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/base/text_lines.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

/// Ranks have devices of one kind; the host is not mentioned.
std::string kind_of_device(const Tensor& tensor) {
  const DeviceType type = tensor.device().type;
  return type == DeviceType::host ? "" : fmt::format(" on {}", name_of(type));
}

void expect_one_device(const nn::Module& module) {
  const StateDict state = module.state_dict();
  for (const auto& entry : state) {
    const auto& first = *state.begin();
    if (entry.tensor.device() == first.tensor.device()) continue;
    throw Error(
        fmt::format("'{}' lies on {}, but '{}' on {}: move the whole module to one device "
                    "with to()",
                    first.name, to_string(first.tensor.device()), entry.name,
                    to_string(entry.tensor.device())));
  }
}

/// One line per entry, so that the first differing line is the sentence to show.
std::string manifest_of(const nn::Module& module, const std::string& settings) {
  std::set<std::string> trained;
  for (const auto& [name, variable] : module.named_parameters()) {
    if (variable.requires_grad()) trained.insert(name);
  }
  std::string lines;
  for (const auto& [name, tensor, placement] : module.state_dict()) {
    lines +=
        fmt::format("{} '{}' {}{}{}\n", trained.contains(name) ? "parameter" : "untrained", name,
                    name_of(tensor.dtype()), to_string(tensor.shape()), kind_of_device(tensor));
  }
  return lines + settings + "\n";
}

}  // namespace

void expect_same_model(ProcessGroup& group, const nn::Module& module, const std::string& settings) {
  const auto refuse_devices = [](const AgreedFailure& failure) {
    throw Agreed<Error>(
        failure, fmt::format("DistributedDataParallel: {}{}.", failure.prefix(), failure.message));
  };
  agree(group, [&] { expect_one_device(module); }, {.refuse = refuse_devices});
  const std::string mine = manifest_of(module, settings);
  const std::string zeros = broadcast_object(group, mine, 0);
  const auto compare = [&] {
    if (mine == zeros) return;
    const auto [on_zero, here] = first_differing_lines(zeros, mine);
    throw Error(fmt::format("rank 0 has {}, where rank {} of {} has {}", on_zero, group.rank(),
                            group.size(), here));
  };
  const auto refuse = [](const AgreedFailure& failure) {
    throw Agreed<Error>(failure, fmt::format("DistributedDataParallel: the ranks built different "
                                             "models: {}. Build the same model with the same "
                                             "options on every rank.",
                                             failure.message));
  };
  agree(group, compare, {.refuse = refuse});
}

void broadcast_state(ProcessGroup& group, const nn::Module& module) {
  for (const auto& entry : module.state_dict()) group.broadcast(entry.tensor, 0).wait();
}

}  // namespace lockstep
