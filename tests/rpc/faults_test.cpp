// A callee that is stopped or killed while it serves.
#include <atomic>
#include <csignal>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>
#include <lockstep/base/host.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/process_state.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/flight/ring.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

int process_id() { return ::getpid(); }
void stop_yourself() { ::raise(SIGSTOP); }
int still_here(int a) { return a; }
Tensor much(std::int64_t n) { return Tensor::full({n}, 1.0); }
Tensor same(const Tensor& t) { return t; }
LOCKSTEP_RPC(process_id);
LOCKSTEP_RPC(stop_yourself);
LOCKSTEP_RPC(still_here);
LOCKSTEP_RPC(much);
LOCKSTEP_RPC(same);

TEST(Faults, AStoppedCalleeIsNamedAtTheDeadlineAndServesWhenResumed) {
  test::on_workers([](ProcessGroup& group) {
    if (group.size() < 2) return;
    const int callee = group.size() - 1;
    if (group.rank() == 0) {
      const int pid = rpc::rpc_sync(callee, process_id);
      const auto stops = rpc::rpc_async(callee, stop_yourself);
      while (process_state(pid) != ProcessState::stopped) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      const auto start = Clock::now();
      const std::string said = test::thrown_by<TimeoutError>(
          [&] { rpc::rpc_sync(rpc::To(callee).within(std::chrono::seconds(1)), still_here, 2); });
      EXPECT_GE(seconds_since(start), 1.0);
      EXPECT_LT(seconds_since(start), 30.0);
      EXPECT_NE(said.find("still_here on worker " + test::name_of_worker(callee)),
                std::string::npos)
          << said;
      EXPECT_NE(said.find("its process " + std::to_string(pid)), std::string::npos) << said;
      EXPECT_NE(said.find("is stopped"), std::string::npos) << said;
      // Others are reached all the while.
      EXPECT_EQ(rpc::rpc_sync(0, still_here, 3), 3);
      ::kill(pid, SIGCONT);
      stops.wait();
      EXPECT_EQ(rpc::rpc_sync(callee, still_here, 4), 4);
      EXPECT_EQ(rpc::rpc_sync(callee, much, 100000).numel(), 100000);
    }
    group.barrier();
  });
}

TEST(Faults, MessagesToAStoppedCalleeDoNotDelayOthers) {
  test::on_workers([](ProcessGroup& group) {
    const int callee = group.size() - 1;
    if (group.rank() == 0 && callee > 1) {
      const int pid = rpc::rpc_sync(callee, process_id);
      ::kill(pid, SIGSTOP);
      const auto stuck = rpc::rpc_async(callee, same, Tensor::full({1 << 20}, 1.0));
      constexpr std::int64_t piece = 1 << 16, piece_bytes = 4 * piece;
      const auto exchange = [&](int many) {
        for (int i = 0; i < many; ++i) {
          EXPECT_EQ(rpc::rpc_sync(1, same, Tensor::full({piece}, 2.0)).numel(), piece);
        }
        return memory_stats().in_use;
      };
      const auto before = exchange(10);
      EXPECT_LE(exchange(100), before + 8 * piece_bytes);
      ::kill(pid, SIGCONT);
      EXPECT_EQ(stuck.wait().numel(), 1 << 20);
    }
    group.barrier();
  });
}

/// `stopped` is stopped for so long, with all in shutdown, that it could be named twice.
void expect_named_once_in_shutdown(const std::shared_ptr<ProcessGroup>& group, int stopped) {
  const int rank = group->rank(), speaker = stopped == 0 ? 1 : 0;
  rpc::init(test::name_of_worker(rank), *group, {.shutdown_timeout = std::chrono::seconds(30)});
  const int pid = rpc::rpc_sync(stopped, process_id);
  std::atomic<int> named{0};
  const std::string words = "rpc::shutdown waits for worker " + test::name_of_worker(stopped) +
                            " (rank " + std::to_string(stopped) + "): its process " +
                            std::to_string(pid) + " on node " + host_name() + " is stopped";
  set_log_sink([&](LogLevel, std::string_view text) {
    if (text.find(words) != std::string_view::npos) ++named;
  });
  group->barrier();
  if (rank == speaker) ::kill(pid, SIGSTOP);
  std::thread goes_on([&] {
    if (rank != speaker) return;
    std::this_thread::sleep_for(std::chrono::seconds(8));
    ::kill(pid, SIGCONT);
  });
  rpc::shutdown();
  goes_on.join();
  set_log_sink({});
  EXPECT_EQ(named, rank == speaker ? 1 : 0);
}

TEST(Faults, AStoppedWorkerIsNamedOnceByAWaitingRankInShutdown) {
  for (const int ranks : test::rank_counts()) {
    if (ranks < 2) continue;
    test::on_ranks(ranks, [&](const std::shared_ptr<ProcessGroup>& group) {
      for (const int stopped : {0, ranks - 1}) expect_named_once_in_shutdown(group, stopped);
    });
  }
}

TEST(Faults, CallsAreInTheFlightRecorder) {
  test::on_workers([](ProcessGroup& group) {
    EXPECT_EQ(rpc::rpc_sync(test::after(group), still_here, 5), 5);
    const FlightRing ring = read_flight_ring(FlightRecorder::current()->path());
    bool found = false;
    for (const FlightGroupView& view : ring.groups) {
      for (const FlightCall& call : view.calls) {
        found = found || (call.is_message && call.what.find("(still_here ") != std::string::npos);
      }
    }
    EXPECT_TRUE(found);
  });
}

TEST(Faults, CallsAreInTheTrace) {
  test::on_workers([](ProcessGroup& group) {
    const TraceSession session(1000);
    group.barrier();  // calls that come before are not in it
    for (int i = 0; i < 5; ++i) EXPECT_EQ(rpc::rpc_sync(test::after(group), still_here, i), i);
    group.barrier();
    bool executed = false;
    for (const TraceTrack& track : session.tracks()) {
      for (const TraceEvent& event : track.events) {
        executed = executed || (std::string(event.category) == "rpc" &&
                                std::string(event.name) == "still_here");
      }
    }
    EXPECT_TRUE(executed);
  });
}

}  // namespace
}  // namespace lockstep
