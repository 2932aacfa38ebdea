#include <lockstep/comm/agreement.hpp>

#include <algorithm>

#include <lockstep/base/host.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

/// One rank's result, as it is exchanged.
struct Outcome {
  std::optional<Failure> failure;
  std::string bytes;

  static auto fields(auto& self) { return std::tie(self.failure, self.bytes); }
};

std::vector<Outcome> all_outcomes(ProcessGroup& group, Outcome mine, const AgreeOptions& options) {
  if (mine.failure) {
    mine.failure->rank = group.rank();
    mine.failure->host = host_name();
  }
  std::vector<Outcome> all;
  for (const std::string& bytes : all_gather_object(group, packed(mine), options.wait))
    all.push_back(unpacked<Outcome>(bytes));
  return all;
}

/// Throws the error of the lowest rank that failed.
void expect_all_go_on(const std::vector<Outcome>& all, const AgreeOptions& options) {
  const auto failed = [](const Outcome& one) { return one.failure.has_value(); };
  const auto first = std::ranges::find_if(all, failed);
  if (first == all.end()) return;
  AgreedFailure failure{*first->failure};
  failure.ranks = static_cast<int>(all.size());
  failure.everywhere = std::ranges::all_of(all, [&](const Outcome& one) {
    return one.failure && one.failure->message == failure.message;
  });
  if (options.refuse) options.refuse(failure);
  throw AgreedError(failure, failure.prefix() + failure.message);
}

}  // namespace

namespace detail {

void agree_to_go_on(ProcessGroup& group, const std::optional<Failure>& mine,
                    const AgreeOptions& options) {
  const auto failures = Tensor::full({}, mine ? 1.0 : 0.0, DType::f64);
  Work work = group.all_reduce(failures, ReduceOp::sum);
  options.wait(work);
  if (failures.item() == 0.0) return;
  expect_all_go_on(all_outcomes(group, {.failure = mine, .bytes = {}}, options), options);
}

std::vector<std::string> agree_on_bytes(ProcessGroup& group, const std::optional<Failure>& mine,
                                        const std::string& bytes, const AgreeOptions& options) {
  auto all = all_outcomes(group, {.failure = mine, .bytes = bytes}, options);
  expect_all_go_on(all, options);
  std::vector<std::string> of_ranks;
  of_ranks.reserve(all.size());
  for (Outcome& one : all) of_ranks.push_back(std::move(one.bytes));
  return of_ranks;
}

}  // namespace detail
}  // namespace lockstep
