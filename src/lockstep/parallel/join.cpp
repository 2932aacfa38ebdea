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
      throw InputError("all Joinables of a Join must have one group: counts travel by one");
    }
    joinable.expect_joinable();
  }
}

Join::Iteration Join::agree(bool going_on, double samples) {
  auto* counts = static_cast<double*>(counts_.data());
  counts[0] = going_on ? 1.0 : 0.0;
  counts[1] = samples;
  group().all_reduce(counts_, ReduceOp::sum).wait();
  const Iteration iteration{.going_on = counts[0], .samples = counts[1]};
  const bool some_are_through = iteration.going_on < group().size();
  if (options_.throw_on_early_termination && some_are_through && iteration.going_on > 0) {
    throw_for_those_through(going_on);
  }
  return iteration;
}

void Join::throw_for_those_through(bool going_on) {
  std::vector<int> through;
  int rank = 0;
  for (const bool goes_on : lockstep::agree(group(), [&] { return going_on; })) {
    if (!goes_on) through.push_back(rank);
    ++rank;
  }
  throw Error(fmt::format(
      "uneven inputs: {} of {} {} none for this iteration, others do. Give all ranks equally many "
      "batches, or make the Join without throw_on_early_termination.",
      ranks_in_words(through), group().size(), through.size() == 1 ? "has" : "have"));
}

double Join::step(double samples) {
  const Iteration iteration = agree(true, samples);
  return iteration.samples > 0 ? samples / iteration.samples : 0.0;
}

void Join::finish() {
  bool among_the_last = true;
  while (agree(false, 0).going_on > 0) {
    among_the_last = false;
    for (Joinable& joinable : joinables_) joinable.shadow();
    if (options_.after_shadow) options_.after_shadow();
  }
  const int candidate = among_the_last ? group().rank() : -1;
  const auto last = static_cast<int>(all_reduce_scalar(group(), candidate, ReduceOp::max));
  for (Joinable& joinable : joinables_) joinable.after_join(last);
}

}  // namespace lockstep
