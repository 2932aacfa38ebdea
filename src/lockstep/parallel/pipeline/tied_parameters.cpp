#include <lockstep/parallel/pipeline/tied_parameters.hpp>

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/parallel/pipeline/as_input_error.hpp>

namespace lockstep {
namespace {

using Tied = std::vector<StageParameter>;

/// The ranks that have it, in the order of `tied`.
std::vector<int> ranks_of(const Tied& tied, const std::vector<int>& rank_of_stage) {
  std::vector<int> ranks;
  for (const StageParameter& one : tied) {
    const int rank = rank_of_stage[static_cast<std::size_t>(one.stage)];
    if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  }
  return ranks;
}

/// This rank's; undefined if it has none.
Variable own(const Tied& tied, const std::vector<int>& rank_of_stage, int rank,
             const TiedParameters::Lookup& lookup) {
  Variable found;
  for (const StageParameter& one : tied) {
    if (one.stage < 0 || one.stage >= static_cast<int>(rank_of_stage.size())) {
      throw InputError(
          fmt::format("Pipeline: a tied parameter is of stage {}, but there are {} stages.",
                      one.stage, rank_of_stage.size()));
    }
    if (rank_of_stage[static_cast<std::size_t>(one.stage)] != rank) continue;
    const Variable parameter = lookup(one);
    if (!parameter.defined()) {
      throw InputError(
          fmt::format("Pipeline: stage {} has no parameter {}, which is said to be tied.",
                      one.stage, one.name));
    }
    if (found.defined() && found.record() != parameter.record()) {
      throw InputError(
          fmt::format("Pipeline: {} of stage {} is tied to another parameter of the same rank; "
                      "stages of one rank must share one variable.",
                      one.name, one.stage));
    }
    found = parameter;
  }
  return found;
}

}  // namespace

TiedParameters::TiedParameters(ProcessGroup& group, const std::vector<int>& rank_of_stage,
                               const Lookup& lookup, const std::vector<Tied>& tied) {
  std::vector<Variable> parameters;
  const auto describe_own = [&] {
    std::vector<std::string> descriptions;
    for (const Tied& one : tied) {
      parameters.push_back(own(one, rank_of_stage, group.rank(), lookup));
      const Variable& parameter = parameters.back();
      descriptions.push_back(parameter.defined() ? std::string(name_of(parameter.data().dtype())) +
                                                       to_string(parameter.shape())
                                                 : "");
    }
    return descriptions;
  };
  const auto all = agree(group, describe_own, as_input_error());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].size() == all[0].size()) continue;
    throw Agreed<InputError>(
        fmt::format("Pipeline: rank {} was given {} tied parameters, and rank 0 {}.", rank,
                    all[rank].size(), all[0].size()));
  }
  for (std::size_t i = 0; i < tied.size(); ++i) {
    const auto ranks = ranks_of(tied[i], rank_of_stage);
    for (const int rank : ranks) {
      const std::string& first = all[static_cast<std::size_t>(ranks[0])][i];
      const std::string& other = all[static_cast<std::size_t>(rank)][i];
      if (other == first) continue;
      throw Agreed<InputError>(
          fmt::format("Pipeline: the tied parameter {} is {} on rank {}, but {} on rank {}.",
                      tied[i].front().name, first, ranks[0], other, rank));
    }
    if (ranks.size() < 2) continue;
    all_.push_back({parameters[i], group.new_group(ranks), {}, {}});
    all_.back().group->set_name("tied");
    if (!parameters[i].defined()) continue;
    all_.back().revocation = std::make_unique<Revocation>(*all_.back().group);
    const CallLabel label("tied value", static_cast<int>(i));
    all_.back().group->broadcast(parameters[i].data(), 0).wait();
  }
}

void TiedParameters::begin(bool summed) {
  for (One& one : all_) {
    if (!one.parameter.defined()) continue;
    if (!one.parameter.grad().defined()) one.before = {};  // zero_grad: of no step any more
    if (!summed || !one.parameter.grad().defined()) continue;
    one.before = one.parameter.grad().clone();
    one.parameter.zero_grad();
  }
}

void TiedParameters::sum() {
  int number = 0;
  for (One& one : all_) {
    const CallLabel label("tied gradient", number++);
    if (!one.parameter.defined() || !one.parameter.requires_grad()) continue;
    const Tensor gradient = one.parameter.grad_buffer();
    if (!one.parameter.grad().defined()) gradient.zero();
    const auto begin = Clock::now();
    one.group->all_reduce(gradient, ReduceOp::sum).wait();
    waited_s_ += seconds_since(begin);
    one.parameter.mark_grad_present();
    if (one.before.defined()) gradient += one.before;
    one.before = {};
  }
}

bool TiedParameters::is_of_earlier_stage(const Variable& parameter) const {
  return std::ranges::any_of(all_, [&](const One& one) {
    return one.parameter.defined() && one.parameter.record() == parameter.record() &&
           one.group->rank() > 0;
  });
}

std::vector<Variable> TiedParameters::parameters() const {
  std::vector<Variable> own;
  for (const One& one : all_) {
    if (one.parameter.defined()) own.push_back(one.parameter);
  }
  return own;
}

void TiedParameters::revoke(const std::string& reason) noexcept {
  for (One& one : all_) {
    if (one.revocation) one.revocation->revoke(reason);
  }
}

void TiedParameters::close() {
  for (One& one : all_) {
    one.revocation.reset();
    one.group->close();
  }
  all_.clear();
}

}  // namespace lockstep
