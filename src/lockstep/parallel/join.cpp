#include <lockstep/parallel/join.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/flight/rank_list.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {

void Joinable::after_join(int /*last*/) {}

Join::Join(std::vector<std::reference_wrapper<Joinable>> joinables, JoinOptions options)
    : joinables_(std::move(joinables)),
      options_(std::move(options)),
      counts_(Tensor::zeros({2}, DType::f64)) {
  if (joinables_.empty()) throw InputError("a Join needs at least one Joinable");
  for (const Joinable& joinable : joinables_) {
    if (&joinable.group() != &group()) {
      throw InputError("all Joinables of a Join must have the same group");
    }
    joinable.expect_joinable();
  }
}

Join::Iteration Join::agree(bool active, double samples) {
  auto* counts = static_cast<double*>(counts_.data());
  counts[0] = active ? 1.0 : 0.0;
  counts[1] = samples;
  group().all_reduce(counts_, ReduceOp::sum).wait();
  const Iteration iteration{.active = counts[0], .samples = counts[1]};
  const bool some_are_exhausted = iteration.active < group().size();
  if (options_.throw_on_early_termination && some_are_exhausted && iteration.active > 0) {
    throw_for_exhausted(active);
  }
  return iteration;
}

void Join::throw_for_exhausted(bool active) {
  std::vector<int> exhausted;
  int rank = 0;
  for (const bool has_inputs : lockstep::agree(group(), [&] { return active; })) {
    if (!has_inputs) exhausted.push_back(rank);
    ++rank;
  }
  throw Error(fmt::format(
      "uneven inputs: {} of {} {} none for this iteration, but others do. Give all ranks the same "
      "number of batches, or make the Join without throw_on_early_termination.",
      ranks_in_words(exhausted), group().size(), exhausted.size() == 1 ? "has" : "have"));
}

double Join::step(double samples) {
  const Iteration iteration = agree(true, samples);
  return iteration.samples > 0 ? samples / iteration.samples : 0.0;
}

void Join::finish() {
  bool among_the_last = true;
  while (agree(false, 0).active > 0) {
    among_the_last = false;
    for (Joinable& joinable : joinables_) joinable.shadow();
    if (options_.after_shadow) options_.after_shadow();
  }
  const int candidate = among_the_last ? group().rank() : -1;
  const auto last = static_cast<int>(all_reduce_scalar(group(), candidate, ReduceOp::max));
  for (Joinable& joinable : joinables_) joinable.after_join(last);
}

}  // namespace lockstep
