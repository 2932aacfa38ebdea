#include <lockstep/parallel/pipeline/pipeline_state.hpp>

#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>

namespace lockstep {
namespace {

/// Facts of a tensor that ranks exchange: of its placement all but the offsets.
struct Told {
  std::string name;
  DType dtype{};
  bool is_whole = false, is_flat_run = false;
  std::int64_t parts = 1;
  std::vector<std::int64_t> global;

  static auto fields(auto& self) {
    return std::tie(self.name, self.dtype, self.is_whole, self.is_flat_run, self.parts,
                    self.global);
  }
  bool operator==(const Told&) const = default;
};

Told told_of(const StateDict::Entry& entry) {
  const Placement& placement = entry.placement;
  const Shape& global = placement.sharded ? placement.global : entry.tensor.shape();
  return {.name = entry.name,
          .dtype = entry.tensor.dtype(),
          .is_whole = !placement.sharded,
          .is_flat_run = placement.is_flat_run(),
          .parts = placement.parts,
          .global = {global.begin(), global.end()}};
}

Shape zeros(int dims) {
  return Shape(std::vector<std::int64_t>(static_cast<std::size_t>(dims), 0));
}

std::string describe(const Told& told) {
  return fmt::format("{} {}{}", name_of(told.dtype), to_string(Shape(told.global)),
                     told.is_whole ? "" : " in parts");
}

}  // namespace

PipelineState::PipelineState(ProcessGroup& group, const StateDict& own) {
  const auto tell = [&] {
    std::vector<Told> told;
    for (const auto& entry : own) told.push_back(told_of(entry));
    return told;
  };
  const auto all = agree(group, tell);
  std::unordered_map<std::string, std::pair<const Told*, std::size_t>> known;  // and whose
  std::vector<const Told*> in_order;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (const Told& told : all[rank]) {
      const auto [place, is_new] = known.try_emplace(told.name, &told, rank);
      const auto& [first, its_rank] = place->second;
      if (is_new) in_order.push_back(&told);
      if (*first == told) continue;
      throw AgreedError(
          fmt::format("Pipeline: the state '{}' is {} on rank {}, but {} on rank {}: one name is "
                      "one tensor.",
                      told.name, describe(*first), its_rank, describe(told), rank));
    }
  }
  for (const Told* const each : in_order) {
    const Told& told = *each;
    const Shape global(told.global);
    One one{.name = told.name, .dtype = told.dtype, .own = {}, .placement = {}};
    one.is_whole = told.is_whole;
    const auto* const here = own.find(told.name);
    one.is_here = here != nullptr;
    if (here && !told.is_whole) {
      one.own = here->tensor.shape();
      one.placement = here->placement;
    } else if (told.is_flat_run || global.dims() == 0) {
      one.own = {here ? global.numel() : 0};
      one.placement = Placement::flat_run(global, 0);
    } else {
      one.own = here ? global : global.with_leading(0);
      one.placement = Placement::slab(global, zeros(global.dims()));
      one.placement.parts = told.parts;
    }
    all_.push_back(std::move(one));
  }
}

StateDict PipelineState::of_all(const StateDict& own) const {
  StateDict state;
  std::size_t found = 0;
  for (const One& one : all_) {
    if (!one.is_here) {
      state.insert(one.name, Tensor::empty(one.own, one.dtype), one.placement);
      continue;
    }
    const Tensor& tensor = own.at(one.name);
    state.insert(one.name, one.is_scalar() ? tensor.reshape({1}) : tensor, one.placement);
    ++found;
  }
  if (found != own.size()) {
    throw Error(fmt::format(
        "Pipeline: the state has {} names, and {} when the PipelineState was made. Make another.",
        own.size(), found));
  }
  return state;
}

StateDict PipelineState::own_of(const StateDict& all) const {
  std::string problems;
  const auto complain = [&](const std::string& problem) {
    problems += (problems.empty() ? "" : "; ") + problem;
  };
  std::unordered_set<std::string_view> names;
  for (const One& one : all_) names.insert(one.name);
  for (const auto& entry : all) {
    if (!names.contains(entry.name)) complain(entry.name + " is in no stage");
  }
  StateDict state;
  for (const One& one : all_) {
    const auto* const entry = all.find(one.name);
    if (!entry) {
      complain(one.name + " is missing");
      continue;
    }
    if (!one.is_here) continue;
    const Tensor& tensor = entry->tensor;
    const Shape& global = one.placement.global;
    const bool is_run = one.placement.is_flat_run() || one.placement.global.dims() == 1;
    if (one.is_whole && tensor.numel() == global.numel() &&
        (tensor.shape() == global || one.is_scalar())) {
      state.insert(one.name, tensor.reshape(global));
    } else if (tensor.shape() == one.own) {
      state.insert(one.name, tensor, one.placement);
    } else if (is_run && tensor.shape() == global) {
      const std::int64_t begin = one.placement.offsets[0];
      state.insert(one.name, tensor.reshape({tensor.numel()}).slice(begin, begin + one.own.numel()),
                   one.placement);
    } else {
      complain(fmt::format("{} is {} where the stage has {}", one.name, lockstep::describe(tensor),
                           to_string(one.own)));
    }
  }
  if (!problems.empty()) throw Error("the state does not fit the pipeline: " + problems);
  return state;
}

}  // namespace lockstep
