// A rank that leaves a pipeline's step: errors, flight recorder and trace name stage and
// micro-batch.
#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
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
#include <lockstep/parallel/pipeline/pipeline.hpp>

namespace lockstep {
namespace {

constexpr double deadline_s = 3.0;
const GroupOptions impatient{.timeout = std::chrono::seconds(3)};

/// Fails in its call number `fails_in`, counted from 0.
struct Fragile : nn::Module {
  explicit Fragile(int fails_in) : calls_left(fails_in) {}
  Variable forward(const Variable& x) override {
    if (calls_left-- == 0) throw std::runtime_error("a bad sample");
    return (*layer)(x);
  }
  int calls_left;
  std::shared_ptr<nn::Linear> layer = register_module("layer", std::make_shared<nn::Linear>(3, 3));
};

/// The last rank leaves in forward of micro-batch 2.
std::string lose_the_last_rank(const std::shared_ptr<ProcessGroup>& group) {
  const int n = group->size(), last = n - 1;
  const auto stage = std::make_shared<Fragile>(group->rank() == last ? 2 : -1);
  Pipeline pipeline({stage}, group, one_f_one_b(n, 8),
                    [](const Variable& y, const Tensor&) { return mean(y); });
  const Tensor x = Tensor::full({16, 3}, 1.0);
  const auto begin = Clock::now();
  std::string message;
  if (group->rank() == last) {
    EXPECT_THROW(pipeline.step(x, x), std::runtime_error);
  } else {
    message = test::message_of<CommError>([&] { pipeline.step(x, x); });
    EXPECT_LT(seconds_since(begin), 10 * deadline_s) << "on however busy a machine";
  }
  EXPECT_TRUE(test::mentions(test::message_of<Error>([&] { pipeline.step(x, x); }),
                             "an earlier call ended with an exception"));
  return message;
}

TEST(PipelineFailure, NamesStageAndMicroBatchOverMpi) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto group = make_mpi_group(MPI_COMM_WORLD, impatient);
  const int n = group->size(), rank = group->rank();
  const std::string message = lose_the_last_rank(group);
  if (rank < n - 1) {
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

TEST(PipelineFailure, NamesStageAndMicroBatchOverThreads) {
  std::mutex mutex;
  std::string messages;
  run_ranks_as_threads(
      3,
      [&](ProcessGroup& group) {
        const std::string message =
            lose_the_last_rank(std::shared_ptr<ProcessGroup>(std::shared_ptr<void>(), &group));
        const std::lock_guard lock(mutex);
        messages += message;
      },
      impatient);
  // The first one to time out fails the group, so that the other one does not wait.
  EXPECT_TRUE(test::mentions(messages, " bwd, micro-batch 2\" of the pipeline.")) << messages;
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
