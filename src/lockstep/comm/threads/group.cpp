#include <lockstep/comm/threads_group.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/base/failure.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/comm/threads/core.hpp>

namespace lockstep {
namespace {

/// One rank's view of the shared state.
class ThreadsGroup final : public ProcessGroup {
 public:
  ThreadsGroup(std::shared_ptr<SharedState> shared, int rank)
      : core_(ThreadsCore::join(std::move(shared), rank)) {}

  [[nodiscard]] int rank() const noexcept override { return core_->rank(); }
  [[nodiscard]] int size() const noexcept override { return core_->size(); }
  [[nodiscard]] const char* backend() const noexcept override { return "threads"; }

  [[nodiscard]] WaitTimes wait_times() const noexcept override { return core_->clock().times(); }

 private:
  [[nodiscard]] Work start(Operation&& operation) override {
    return core_->start(std::move(operation));
  }
  void release() override { static_cast<void>(core_->drain_and_close()); }
  void take_name(const std::string& name) override { core_->take_name(name); }
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_subgroup(std::span<const int> members) override {
    const std::uint64_t number = ++splits_;
    if (members.empty()) return nullptr;
    const auto me = std::ranges::find(members, rank()) - members.begin();
    return std::make_shared<ThreadsGroup>(
        core_->shared().child(number, members[0], static_cast<int>(members.size())),
        static_cast<int>(me));
  }

  IntrusivePtr<ThreadsCore> core_;
  std::uint64_t splits_ = 0;
};

/// Rethrows with the rank before the message; keeps the class, which decides the exit code.
[[noreturn]] void rethrow_naming(int rank, int ranks, const std::exception_ptr& failure) {
  const auto named = [&] {
    const Failure own = current_failure();
    return own.rank >= 0 ? own.message : fmt::format("rank {} of {}: {}", rank, ranks, own.message);
  };
  const RankOfError of{.rank = rank};
  try {
    std::rethrow_exception(failure);
  } catch (const TimeoutError&) {
    throw ErrorOnRank<TimeoutError>(of, named());
  } catch (const CommError&) {
    throw ErrorOnRank<CommError>(of, named());
  } catch (const InputError&) {
    throw ErrorOnRank<InputError>(of, named());
  } catch (const CheckpointError&) {
    throw ErrorOnRank<CheckpointError>(of, named());
  } catch (const ShapeError& error) {
    throw ErrorOnRank<ShapeError>(of, named(), error.exit_code());
  } catch (const OutOfMemoryError&) {
    throw ErrorOnRank<OutOfMemoryError>(of, named());
  } catch (const Error& error) {
    throw ErrorOnRank<Error>(of, named(), error.exit_code());
  } catch (const std::exception&) {
    throw ErrorOnRank<Error>(of, named());
  }
}

}  // namespace

void run_ranks_as_threads(int ranks, const std::function<void(ProcessGroup&)>& body,
                          const GroupOptions& options) {
  if (ranks < 1) {
    throw InputError(
        fmt::format("run_ranks_as_threads: {} ranks were asked for; at least 1 is needed", ranks));
  }
  const auto shared = std::make_shared<SharedState>(ranks, options);
  const auto fail = [&](int rank, const std::string& reason) {
    shared->fail(rank, fmt::format("it failed earlier: {}.", reason));
  };
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  const auto run = [&](int rank) {
    auto& failure = failures[static_cast<std::size_t>(rank)];
    const ThreadRank identity(rank);
    try {
      ThreadsGroup group(shared, rank);
      body(group);
    } catch (const std::exception& error) {
      failure = std::current_exception();
      fail(rank, error.what());
    } catch (...) {
      failure = std::current_exception();
      fail(rank, "an exception of unknown type was thrown");
    }
  };

  struct Clearing {
    SharedState& shared;
    ~Clearing() { shared.clear(); }
  };
  {
    const Clearing clearing{*shared};  // destroyed after the threads have been joined
    std::vector<std::jthread> threads;
    threads.reserve(failures.size());
    try {
      for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
    } catch (const std::exception& error) {
      fail(static_cast<int>(threads.size()), error.what());  // ends the threads that run already
      throw;
    }
  }
  const int first = shared->failed_rank();

  // The first rank to fail may have handled its failure; then only secondary failures are left.
  if (first < 0) return;
  if (failures[static_cast<std::size_t>(first)]) {
    rethrow_naming(first, ranks, failures[static_cast<std::size_t>(first)]);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (failures[static_cast<std::size_t>(rank)]) {
      rethrow_naming(rank, ranks, failures[static_cast<std::size_t>(rank)]);
    }
  }
}

}  // namespace lockstep
