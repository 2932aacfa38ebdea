#include <lockstep/comm/nccl/flight_log.hpp>

#include <algorithm>
#include <vector>

namespace lockstep {

FlightLog open_flight_log(ProcessGroup& control) {
  auto recorder = FlightRecorder::current();
  // Each rank's proposal for the group's number, and its rank in the job.
  const auto mine = Tensor::from(
      std::vector<std::int64_t>{static_cast<std::int64_t>(FlightRecorder::next_group_number()),
                                recorder ? recorder->rank() : control.rank()},
      {2});
  const auto all = Tensor::empty({control.size(), 2}, DType::i64);
  control.all_gather(mine, all).wait();
  if (!recorder) return {};

  const auto elements = all.to_vector<std::int64_t>();
  std::int64_t number = 0;
  std::vector<int> members;
  for (std::size_t i = 0; i < elements.size(); i += 2) {
    number = std::max(number, elements[i]);
    members.push_back(static_cast<int>(elements[i + 1]));
  }
  const int group = recorder->add_group(static_cast<std::uint64_t>(number), members);
  return {std::move(recorder), group};
}

}  // namespace lockstep
