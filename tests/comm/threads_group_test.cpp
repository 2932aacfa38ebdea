#include <sys/resource.h>

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <comm/deadlines.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/nccl_group.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

// First of all: the host kernels may run on several threads at once (Kokkos' Serial space is
// thread-safe for parallel_for over a RangePolicy only).
TEST(ThreadsGroup, ElementwiseKernelsRunOnFourThreadsAtOnce) {
  run_ranks_as_threads(4, [](ProcessGroup& group) {
    const double mine = group.rank() + 1;
    for (int repeat = 0; repeat < 50; ++repeat) {
      const auto x = Tensor::empty({3001});
      const auto y = Tensor::empty({3001});
      const auto z = Tensor::empty({3001}, DType::f64);
      fill(x, mine);
      fill(y, 10.0);
      add_scaled(x, 2.0, y);
      scale(y, 0.5);
      add_scaled(x, 1.0, y);
      convert(y, z);
      for (const double value : z.to_vector<double>()) ASSERT_EQ(value, 5.0 + 2.0 * mine);
    }
  });
}

TEST(ThreadsGroup, SumsInRankOrder) {
  constexpr std::array<float, 4> parts{1e8F, 3.3333F, -1e8F, 0.1F};
  const float expected = ((parts[0] + parts[1]) + parts[2]) + parts[3];
  for (int repeat = 0; repeat < 20; ++repeat) {
    run_ranks_as_threads(4, [&](ProcessGroup& group) {
      const auto t = Tensor::full({17}, parts.at(static_cast<std::size_t>(group.rank())));
      group.all_reduce(t, ReduceOp::sum).wait();
      EXPECT_EQ(t.to_vector<float>().back(), expected);
    });
  }
}

/// Runs the body; returns its exception's message, and expects it to be an `E`.
template <class E>
std::string message_of(int ranks, const std::function<void(ProcessGroup&)>& body,
                       const GroupOptions& options = {}) {
  try {
    run_ranks_as_threads(ranks, body, options);
  } catch (const E& error) {
    return error.what();
  }
  return "nothing of the expected type was thrown";
}

TEST(ThreadsGroup, AnExceptionOnOneRankReleasesTheOthersAtOnce) {
  const auto start = Clock::now();
  const auto message = message_of<CheckpointError>(4, [](ProcessGroup& group) {
    if (group.rank() == 2) throw CheckpointError("the disk is full");
    try {
      for (int i = 0; i < 2; ++i) group.barrier();
      ADD_FAILURE() << "rank " << group.rank() << " was not told";
    } catch (const CommError& echo) {
      EXPECT_NE(std::string(echo.what()).find("the disk is full"), std::string::npos)
          << echo.what();
      EXPECT_THROW(group.barrier(), CommError);
      throw;
    }
  });
  EXPECT_EQ(message, "rank 2 of 4: the disk is full");
  EXPECT_LT(seconds_since(start), 60.0);  // the deadline is 10 minutes
}

TEST(ThreadsGroup, ATimeOutNamesTheRankThatDidNotCall) {
  const auto attempt = [](std::chrono::milliseconds deadline) {
    std::atomic<int> told = 0;
    std::array<std::string, 3> texts;
    run_ranks_as_threads(3,
                         [&](ProcessGroup& group) {
                           group.barrier();
                           if (group.rank() == 1) return;
                           std::string& text = texts.at(static_cast<std::size_t>(group.rank()));
                           text = "it did not time out";
                           const auto t = Tensor::zeros({21840});
                           try {
                             group.all_reduce(t, ReduceOp::sum).wait();
                           } catch (const CommError& error) {
                             text = error.what();
                           }
                           const auto says = [&](const char* part) {
                             return text.find(part) != std::string::npos;
                           };
                           if (says("all_reduce(sum) #2 of f32[21840] has not completed after ") &&
                               says(" s: rank 1 has not entered it (its last was barrier #1)")) {
                             ++told;
                           }
                           EXPECT_THROW(group.barrier(), CommError);
                         },
                         {.timeout = deadline});
    return told == 2 ? "" : "rank 0: " + texts[0] + "; rank 2: " + texts[2];
  };
  test::hold_at_deadlines(std::chrono::seconds(1), attempt, test::here);
}

TEST(ThreadsGroup, CallsThatDifferAreNamedSideBySide) {
  const auto message = message_of<CommError>(2, [](ProcessGroup& group) {
    const auto t = Tensor::zeros({group.rank() == 0 ? 4 : 32});
    group.all_reduce(t, ReduceOp::sum).wait();
  });
  // By whichever rank found it first.
  for (const char* part :
       {"all_reduce(sum) #1 of f32[4]", "all_reduce(sum) #1 of f32[32]",
        ", another shape: all ranks must make the same calls in the same order"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

#ifndef __SANITIZE_THREAD__  // its own futexes count as sleeps
long sleeps_of_this_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

// A long reduction returns after every MiB, so that other operations get their turn: 192 times
// here.
TEST(ThreadsGroup, AWaitWithWorkOfItsOwnDoesNotSleep) {
  run_ranks_as_threads(1, [](ProcessGroup& group) {
    // Their memory is resident: the system may sleep to find it, in pieces of 2 MiB.
    const auto input = Tensor::full({24 << 20}, 1, DType::f64);
    const auto output = Tensor::full({24 << 20}, 2, DType::f64);
    const long before = sleeps_of_this_thread();
    group.all_reduce(input, output, ReduceOp::sum).wait();
    EXPECT_LT(sleeps_of_this_thread() - before, 20);
  });
}
#endif

TEST(ThreadsGroup, ACallThatWasRefusedIsNotCounted) {
  run_ranks_as_threads(
      2,
      [](ProcessGroup& group) {
        if (group.rank() == 0) {
          float elsewhere = 0;
          const auto storage =
              Storage::borrow(&elsewhere, sizeof elsewhere, Device{DeviceType::cuda, 0});
          const auto t = Tensor::over(storage, 0, {1}, DType::f32);
          EXPECT_THROW(static_cast<void>(group.all_reduce(t, ReduceOp::sum)), InputError);
        }
        const auto t = Tensor::full({1}, 1.0);
        group.all_reduce(t, ReduceOp::sum).wait();
        EXPECT_EQ(t.to_vector<float>(), std::vector<float>{2});
      },
      {.timeout = std::chrono::seconds(10)});
}

TEST(ThreadsGroup, NeedsAtLeastOneRank) {
  EXPECT_THROW(run_ranks_as_threads(0, [](ProcessGroup&) {}), InputError);
}

TEST(NullPointers, AreRefusedWhereGroupsAreMade) {
  for (const Device device : {Device{}, Device{DeviceType::cuda, 0}}) {
    const auto message =
        test::message_of<Error>([&] { static_cast<void>(make_group(nullptr, device)); });
    EXPECT_NE(message.find("group of the host is null"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace lockstep
