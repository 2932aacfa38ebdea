#include <lockstep/train/step_clock.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace lockstep::train {

StepClock::Totals operator-(const StepClock::Totals& later, const StepClock::Totals& earlier) {
  return {.compute = later.compute - earlier.compute,
          .communication = later.communication - earlier.communication,
          .data = later.data - earlier.data,
          .communication_work = later.communication_work - earlier.communication_work,
          .wall = later.wall - earlier.wall,
          .samples = later.samples - earlier.samples};
}

TimeSplit spread_over_ranks(ProcessGroup& group, const StepClock::Totals& mine,
                            double& slowest_wall) {
  const double other = std::max(0.0, mine.wall - mine.compute - mine.communication - mine.data);
  const std::vector<double> values{mine.compute, mine.communication,      mine.data,
                                   other,        mine.communication_work, mine.wall};
  constexpr std::int64_t parts = 6;
  const Tensor all = Tensor::empty({group.size(), parts}, DType::f64);
  group.all_gather(Tensor::from(values, {parts}), all).wait();
  const auto table = all.to_vector<double>();
  const auto spread = [&](std::size_t part) {
    Spread s{table[part], 0, table[part]};
    for (std::size_t at = part; at < table.size(); at += parts) {
      s.min = std::min(s.min, table[at]);
      s.max = std::max(s.max, table[at]);
      s.mean += table[at] / group.size();
    }
    return s;
  };
  slowest_wall = spread(5).max;
  return {spread(0), spread(1), spread(2), spread(3), spread(4)};
}

}  // namespace lockstep::train
