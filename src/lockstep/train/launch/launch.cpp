#include <lockstep/train/launch/launch.hpp>

#include <algorithm>

#include <lockstep/comm/agreement.hpp>

namespace lockstep::train {

int Launch::cores_owned(int of) const {
  const std::vector<int>& mask = seat(of).cores;
  const auto sharing = std::ranges::count_if(layout.ranks_on(layout.node_of(of)),
                                             [&](int other) { return seat(other).cores == mask; });
  return std::max(1, static_cast<int>(mask.size()) / static_cast<int>(sharing));
}

bool Launch::is_one_process() const {
  const auto beside_first = [&](const Seat& seat) {
    return seat.pid == seats.front().pid && seat.host == seats.front().host;
  };
  return size() > 1 && seats.front().pid != 0 && std::ranges::all_of(seats, beside_first);
}

Launch make_launch(std::vector<Seat> seats, int rank) {
  std::vector<std::string> hosts;
  hosts.reserve(seats.size());
  for (const Seat& seat : seats) hosts.push_back(seat.host);
  return {.layout = NodeLayout(hosts), .seats = std::move(seats), .rank = rank};
}

Launch inspect_launch(ProcessGroup& group, const std::string& deck_hash) {
  return make_launch(agree(group, [&] { return take_seat(deck_hash); }), group.rank());
}

}  // namespace lockstep::train
