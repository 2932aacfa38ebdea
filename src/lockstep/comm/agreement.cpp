#include <lockstep/comm/agreement.hpp>

#include <algorithm>
#include <vector>

#include <lockstep/base/host.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {

std::optional<AgreedFailure> first_failure(ProcessGroup& group, const std::string& message,
                                           ExitCode code) {
  const double failed = message.empty() ? 0.0 : 1.0;
  if (all_reduce_scalar(group, failed, ReduceOp::sum) == 0.0) return std::nullopt;

  // Exit code, host, a separator, message; nothing from a rank that can go on.
  const std::string mine =
      message.empty() ? "" : static_cast<char>(code) + host_name() + '\n' + message;
  const std::vector<std::string> all = all_gather_object(group, mine);
  const auto first = std::ranges::find_if(all, [](const std::string& one) { return !one.empty(); });
  const std::size_t end_of_host = first->find('\n');
  AgreedFailure failure{.rank = static_cast<int>(first - all.begin()),
                        .message = first->substr(end_of_host + 1),
                        .code = static_cast<ExitCode>(first->front()),
                        .host = first->substr(1, end_of_host - 1)};
  failure.everywhere = std::ranges::all_of(all, [&](const std::string& one) {
    return !one.empty() && one.substr(one.find('\n') + 1) == failure.message;
  });
  return failure;
}

}  // namespace lockstep
