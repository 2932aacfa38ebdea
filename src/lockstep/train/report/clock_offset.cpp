#include <lockstep/train/report/clock_offset.hpp>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <lockstep/base/trace.hpp>

namespace lockstep::train {
namespace {

constexpr int rounds = 16;

Tensor numbers(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {std::ssize(values)});
}

void ask(ProcessGroup& group, int rank) {
  std::vector<ClockQuestion> questions;
  const Tensor clock = Tensor::empty({1}, DType::i64);
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t asked = trace_now();
    group.send(clock, rank);
    group.recv(clock, rank);
    questions.push_back({asked, clock.to_vector<std::int64_t>().front(), trace_now()});
  }
  const ClockOffset found = offset_from(questions);
  group.send(numbers({found.offset_ns, found.error_ns}), rank);
}

ClockOffset answer(ProcessGroup& group) {
  const Tensor question = Tensor::empty({1}, DType::i64);
  for (int round = 0; round < rounds; ++round) {
    group.recv(question, 0);
    group.send(numbers({trace_now()}), 0);
  }
  const Tensor found = Tensor::empty({2}, DType::i64);
  group.recv(found, 0);
  const auto values = found.to_vector<std::int64_t>();
  return {values[0], values[1]};
}

}  // namespace

ClockOffset offset_from(std::span<const ClockQuestion> questions) {
  const ClockQuestion& best = *std::ranges::min_element(
      questions, {}, [](const ClockQuestion& q) { return q.heard_ns - q.asked_ns; });
  const std::int64_t error = (best.heard_ns - best.asked_ns + 1) / 2;
  const std::int64_t offset = best.asked_ns + error - best.answer_ns;
  return {std::abs(offset) <= error ? 0 : offset, error};
}

ClockOffset measure_clock_offset(ProcessGroup& group) {
  if (group.rank() != 0) return answer(group);
  for (int rank = 1; rank < group.size(); ++rank) ask(group, rank);
  return {};
}

}  // namespace lockstep::train
