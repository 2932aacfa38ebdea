// A rank that leaves a pipeline's step: errors, flight recorder and trace name stage and
// micro-batch.
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/flight/ring.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/pipeline/pipeline.hpp>

namespace lockstep {
namespace {

constexpr double deadline_s = 3.0;
const GroupOptions impatient{.timeout = std::chrono::seconds(3)};
/// With it, a rank that is not told of a failure waits for longer than any test.
const GroupOptions patient{.timeout = std::chrono::minutes(5)};

/// Does something in its call number `fails_in`, counted from 0.
struct Fragile : nn::Module {
  Fragile(int fails_in, std::function<void()> what)
      : calls_left(fails_in), fails(std::move(what)) {}
  Variable forward(const Variable& x) override {
    if (calls_left-- == 0) fails();
    return (*layer)(x);
  }
  int calls_left;
  std::function<void()> fails;
  std::shared_ptr<nn::Linear> layer = register_module("layer", std::make_shared<nn::Linear>(3, 3));
};

[[noreturn]] void throw_error() { throw std::runtime_error("a bad sample"); }

/// A step in which rank `lost` is lost in forward of micro-batch 2, by `what`; the other ranks'
/// message, and how long they waited.
struct Loss {
  std::string message;
  double seconds = 0.0;
};
Loss lose(int lost, const std::shared_ptr<ProcessGroup>& group, const std::function<void()>& what,
          const PipelineOptions& options = {}) {
  const int n = group->size();
  const auto stage = std::make_shared<Fragile>(group->rank() == lost ? 2 : -1, what);
  Pipeline pipeline(
      {stage}, group, one_f_one_b(n, 8), [](const Variable& y, const Tensor&) { return mean(y); },
      options);
  const Tensor x = Tensor::full({16, 3}, 1.0);
  Loss loss;
  const auto begin = Clock::now();
  if (group->rank() == lost) {
    EXPECT_THROW(pipeline.step(x, x), std::runtime_error);
  } else {
    loss.message = test::message_of<CommError>([&] { pipeline.step(x, x); });
  }
  loss.seconds = seconds_since(begin);
  EXPECT_TRUE(test::mentions(test::message_of<Error>([&] { pipeline.step(x, x); }),
                             "an earlier call ended with an exception"));
  return loss;
}

std::string who_left(int lost, int n) {
  return "rank " + std::to_string(lost) + " of " + std::to_string(n);
}
std::string where_it_left(int lost) {
  return "left the pipeline's step in forward of stage " + std::to_string(lost) +
         " of micro-batch 2: a bad sample";
}

TEST(PipelineFailure, TellsTheOtherRanksOverMpiAtOnceWhereARankHasThrown) {
  for (const bool first : {false, true}) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto group = make_mpi_group(MPI_COMM_WORLD, patient);
    const int n = group->size(), lost = first ? 0 : n - 1;
    const auto [message, seconds] = lose(lost, group, throw_error);
    EXPECT_LT(seconds, 30.0) << "on however busy a machine; a second on an idle one";
    if (group->rank() != lost) {
      EXPECT_TRUE(test::mentions(message, who_left(lost, n))) << message;
      EXPECT_TRUE(test::mentions(message, where_it_left(lost))) << message;
    }
    // The group has ended on all ranks.
    EXPECT_TRUE(test::mentions(test::message_of<CommError>([&] { group->barrier(); }), "revoked"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(PipelineFailure, TellsTheOtherRanksOverThreadsAtOnceWhereARankHasThrown) {
  std::mutex mutex;
  std::vector<std::string> messages;
  const auto begin = Clock::now();
  run_ranks_as_threads(
      3,
      [&](ProcessGroup& group) {
        const auto [message, seconds] =
            lose(1, std::shared_ptr<ProcessGroup>(std::shared_ptr<void>(), &group), throw_error);
        const std::lock_guard lock(mutex);
        if (group.rank() != 1) messages.push_back(message);
      },
      patient);
  EXPECT_LT(seconds_since(begin), 30.0);
  for (const std::string& message : messages) {
    EXPECT_TRUE(test::mentions(message, who_left(1, 3))) << message;
    EXPECT_TRUE(test::mentions(message, where_it_left(1))) << message;
  }
}

/// The ranks of the lost one's replicas wait in sums of gradients, or in their own pipelines.
TEST(PipelineFailure, TellsReplicasAndTheRanksOfTiedParameters) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto group = make_mpi_group(MPI_COMM_WORLD, patient);
  const int n = group->size();
  for (const bool has_replicas : {true, false}) {
    // Two replicas of one stage each, or one pipeline whose ends are tied.
    const auto pipeline_group = group->split(has_replicas ? group->rank() : 0, group->rank());
    const auto data_group = group->split(has_replicas ? 0 : group->rank(), group->rank());
    const int pp = pipeline_group->size();
    const bool is_lost = group->rank() == n - 1;
    const auto step = [&] {
      const auto stage = std::make_shared<Fragile>(is_lost ? 2 : -1, throw_error);
      PipelineOptions options;
      if (has_replicas) {
        options.data_parallel.push_back(
            std::make_shared<DistributedDataParallel>(stage, data_group));
      } else {
        options.tied = {{{0, "layer.weight"}, {n - 1, "layer.weight"}}};
      }
      Pipeline pipeline(
          {stage}, pipeline_group, one_f_one_b(pp, 8),
          [](const Variable& y, const Tensor&) { return mean(y); }, options);
      const Tensor x = Tensor::full({16, 3}, 1.0);
      pipeline.step(x, x);
    };
    const auto begin = Clock::now();
    if (is_lost) {
      EXPECT_THROW(step(), std::runtime_error);
    } else {
      EXPECT_TRUE(
          test::mentions(test::message_of<CommError>(step), "of micro-batch 2: a bad sample"));
    }
    EXPECT_LT(seconds_since(begin), 30.0);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// The last rank's process stops in forward of micro-batch 2, until the others have given up.
TEST(PipelineFailure, NamesStageAndMicroBatchThatAStoppedRankOwes) {
  const auto group = make_mpi_group(MPI_COMM_WORLD, impatient);
  const int n = group->size(), rank = group->rank(), last = n - 1;
  int pid = getpid();
  MPI_Bcast(&pid, 1, MPI_INT, last, MPI_COMM_WORLD);
  const auto stop = [] {
    ::raise(SIGSTOP);
    throw_error();
  };
  const auto resume = [&] {
    for (int r = 1; r < last; ++r)
      MPI_Recv(nullptr, 0, MPI_INT, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ::kill(pid, SIGCONT);
  };
  const auto [message, seconds] = lose(last, group, stop);
  if (rank < last) {
    rank == 0 ? resume() : static_cast<void>(MPI_Send(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
    EXPECT_LT(seconds, 10 * deadline_s) << "on however busy a machine";
    const std::string stage = "stage " + std::to_string(rank);
    EXPECT_TRUE(test::mentions(message, "rank " + std::to_string(rank + 1) + " has not matched it"))
        << message;
    EXPECT_TRUE(test::mentions(message, "The message is \"" + stage + " bwd, micro-batch 2\""))
        << message;
    // The flight recorder tells the same of the call that hangs, after others that ended.
    ASSERT_TRUE(FlightRecorder::current());
    const FlightRing ring = read_flight_ring(FlightRecorder::current()->path());
    std::vector<std::string> completed, hanging;
    for (const auto& its_group : ring.groups) {
      for (const FlightCall& call : its_group.calls)
        (call.state == FlightCall::State::completed ? completed : hanging).push_back(call.what);
    }
    const auto tells = [&](const std::vector<std::string>& calls, const std::string& label) {
      return std::ranges::any_of(
          calls, [&](const std::string& call) { return test::mentions(call, "(" + label + ","); });
    };
    EXPECT_TRUE(tells(hanging, stage + " bwd, micro-batch 2"));
    EXPECT_TRUE(tells(completed, stage + " bwd, micro-batch 1"));
    EXPECT_TRUE(tells(completed, "stage " + std::to_string(rank + 1) + " fwd, micro-batch 1"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(PipelineTrace, ShowsActionsAndMessagesWithStageAndMicroBatch) {
  run_ranks_as_threads(2, [](ProcessGroup& group) {
    std::vector<TraceTrack> tracks;
    {
      const TraceSession session(1000);
      const std::shared_ptr<ProcessGroup> shared(std::shared_ptr<void>(), &group);
      Pipeline pipeline({std::make_shared<nn::Linear>(3, 3)}, shared, one_f_one_b(2, 3),
                        [](const Variable& y, const Tensor&) { return mean(y); });
      const Tensor x = Tensor::full({6, 3}, 1.0);
      pipeline.step(x, x);
      tracks = session.tracks();
    }
    const auto has = [&](const std::string& category, const std::string& name, int number) {
      return std::ranges::any_of(tracks, [&](const TraceTrack& track) {
        return std::ranges::any_of(track.events, [&](const TraceEvent& event) {
          return event.category == category && event.name == name && event.number == number;
        });
      });
    };
    for (int k = 0; k < 3; ++k) {
      EXPECT_TRUE(has("pipeline", "forward", k));
      EXPECT_TRUE(has("pipeline", "backward", k));
    }
    const std::string received = group.rank() == 1 ? "stage 1 fwd" : "stage 0 bwd";
    EXPECT_TRUE(has("message", received + ", micro-batch", 2));
  });
}

}  // namespace
}  // namespace lockstep
