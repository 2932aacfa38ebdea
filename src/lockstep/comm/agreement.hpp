#pragma once
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/base/failure.hpp>
#include <lockstep/comm/agreed_error.hpp>
#include <lockstep/comm/packed.hpp>
#include <lockstep/comm/process_group.hpp>

// Agreement: after a part that may fail, all ranks go on with the same values, or all throw the
// same error. None throws alone between two collectives and leaves the others waiting.
//   agree(group, [&] { read(deck); });                                  // every rank
//   const auto cores = agree(group, [&] { return allowed_cores(); });   // element r is rank r's
//   const fs::path file = agree(group, 0, [&] { return newest(); });    // rank 0's, on all ranks
// Values are of the types that packed() takes. `part` must not communicate.

namespace lockstep {

/// How agree() waits and what it throws.
struct AgreeOptions {
  /// Waits for each work of the agreement: to sleep meanwhile, or to give up by an exception.
  std::function<void(Work&)> wait = [](Work& work) { work.wait(); };
  /// Throws, on every rank. Otherwise it is an AgreedError with the message and exit code of the
  /// lowest rank that failed, which it names unless all failed alike.
  std::function<void(const AgreedFailure&)> refuse = {};
};

namespace detail {
/// Throws if a rank failed. Costs one all-reduce of 8 bytes if no rank threw.
void agree_to_go_on(ProcessGroup& group, const std::optional<Failure>& mine,
                    const AgreeOptions& options);
/// The same; returns every rank's bytes.
[[nodiscard]] std::vector<std::string> agree_on_bytes(ProcessGroup& group,
                                                      const std::optional<Failure>& mine,
                                                      const std::string& bytes,
                                                      const AgreeOptions& options);
template <class Part>
using ResultOf = std::remove_cvref_t<std::invoke_result_t<const Part&>>;
}  // namespace detail

/// Runs `part` on every rank; throws on all of them if it threw on any. Returns the results of
/// `part` of all ranks, in rank order; nothing if `part` returns void. Collective.
template <std::invocable Part>
auto agree(ProcessGroup& group, const Part& part, const AgreeOptions& options = {}) {
  using T = detail::ResultOf<Part>;
  if constexpr (std::is_void_v<T>) {
    detail::agree_to_go_on(group, failure_of(part), options);
  } else {
    std::string mine;
    const auto failure = failure_of([&] { mine = packed<T>(part()); });
    std::vector<T> all;
    for (const std::string& bytes : detail::agree_on_bytes(group, failure, mine, options))
      all.push_back(unpacked<T>(bytes));
    return all;
  }
}

/// The same for a part that each rank has run before, with failure_of(): throws on all ranks if any
/// has failed. Collective.
inline void agree(ProcessGroup& group, const std::optional<Failure>& mine,
                  const AgreeOptions& options = {}) {
  detail::agree_to_go_on(group, mine, options);
}

/// Runs `part` on rank `root` only; throws on all ranks if it threw there. Returns its result on
/// every rank. Collective.
template <std::invocable Part>
auto agree(ProcessGroup& group, int root, const Part& part, const AgreeOptions& options = {}) {
  using T = detail::ResultOf<Part>;
  const bool is_root = group.rank() == root;
  if constexpr (std::is_void_v<T>) {
    const auto on_root = [&] {
      if (is_root) part();
    };
    agree(group, on_root, options);
  } else {
    auto all = agree(
        group, [&]() -> T { return is_root ? part() : T{}; }, options);
    return T(std::move(all[static_cast<std::size_t>(root)]));
  }
}

}  // namespace lockstep
