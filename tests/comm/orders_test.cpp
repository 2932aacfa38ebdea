#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>
#include <comm/deadlines.hpp>
#include <lockstep/comm/mpi_group.hpp>

// Every order in which MPI lets ranks wait is legal here too: a thread that waits for one operation
// drives all others of its process.

namespace lockstep {
namespace {

// In the slots, by staging in one piece and in many, and above MPI's eager limit.
constexpr std::int64_t sizes[] = {1, 200, 100'000, 1'000'000};

using Claim = void (*)(ProcessGroup& world, std::int64_t size);

/// On groups with and without shared memory, with and without a contract.
void in_every_way(Claim claim) {
  for (const bool shared_memory : {true, false}) {
    for (const Contract contract : {Contract::hash, Contract::off}) {
      MPI_Barrier(MPI_COMM_WORLD);
      const auto world = make_mpi_group(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(20),
                                                         .contract = contract,
                                                         .shared_memory = shared_memory});
      for (const std::int64_t size : sizes) {
        SCOPED_TRACE(testing::Message() << size << " elements, shared memory " << shared_memory);
        claim(*world, size);
        if (testing::Test::HasFailure()) return;
      }
      world->close();
    }
  }
}

std::shared_ptr<ProcessGroup> same_ranks(ProcessGroup& world) {
  return world.split(0, world.rank());
}

/// The rank's contribution, and the sum over a group.
Tensor ones(std::int64_t size) { return Tensor::full({size}, 1.0); }
void expect_sum(const Tensor& t, int ranks) {
  const auto values = t.to_vector<float>();
  EXPECT_EQ(values.front(), static_cast<float>(ranks));
  EXPECT_EQ(values.back(), static_cast<float>(ranks));
}

/// Even ranks start and wait for the world's sum, then the other group's; odd ones start both and
/// see the other group's to its end first, by `finish`.
template <class Finish>
void in_opposite_orders(ProcessGroup& world, std::int64_t size, const Finish& finish) {
  const auto other = same_ranks(world);
  const Tensor a = ones(size), b = ones(size);
  if (world.rank() % 2 == 0) {
    world.all_reduce(a, ReduceOp::sum).wait();
    other->all_reduce(b, ReduceOp::sum).wait();
  } else {
    Work first = world.all_reduce(a, ReduceOp::sum), second = other->all_reduce(b, ReduceOp::sum);
    finish(second);
    first.wait();
  }
  expect_sum(a, world.size());
  expect_sum(b, world.size());
  other->close();
}

TEST(Orders, WorksOfTwoGroupsMayBeAwaitedInOppositeOrders) {
  in_every_way([](ProcessGroup& world, std::int64_t size) {
    in_opposite_orders(world, size, [](Work& work) { work.wait(); });
  });
}

TEST(Orders, TestingAWorkMovesTheOtherGroupsToo) {
  in_every_way([](ProcessGroup& world, std::int64_t size) {
    in_opposite_orders(world, size, [](Work& work) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!work.test() && std::chrono::steady_clock::now() < deadline) {
      }
    });
  });
}

TEST(Orders, CollectivesOfAGroupAndOfItsSubGroupsMayBeInFlightTogether) {
  in_every_way([](ProcessGroup& world, std::int64_t size) {
    const auto half = world.split(world.rank() % 2, world.rank());
    const Tensor whole = ones(size), part = ones(size), again = ones(size);
    Work a = world.all_reduce(whole, ReduceOp::sum);
    Work b = half->all_reduce(part, ReduceOp::sum);
    Work c = world.all_reduce(again, ReduceOp::sum);
    switch (world.rank() % 3) {
      case 0:
        a.wait(), b.wait(), c.wait();
        break;
      case 1:
        b.wait(), c.wait(), a.wait();
        break;
      default:
        c.wait(), a.wait(), b.wait();
    }
    expect_sum(whole, world.size());
    expect_sum(part, half->size());
    expect_sum(again, world.size());
    half->close();
  });
}

// Each rank hands a token to the next on the world, and the ranks of its half add up; the halves
// are rows of a pipeline. Even ranks wait for the sum while the odd ones wait for the token, which
// the even ones' sends still carry.
TEST(Orders, MessagesOfAPipelineMayCrossTheCollectivesOfItsStages) {
  in_every_way([](ProcessGroup& world, std::int64_t size) {
    const int n = world.size(), me = world.rank();
    const auto stage = world.split(me * 2 / n, me);
    const Tensor sum = ones(size), sent = Tensor::full({size}, me), got = Tensor::zeros({size});
    Work send = world.isend(sent, (me + 1) % n);
    if (me % 2 == 0) {
      stage->all_reduce(sum, ReduceOp::sum).wait();
      world.recv(got, (me + n - 1) % n);
    } else {
      Work reduced = stage->all_reduce(sum, ReduceOp::sum);
      world.recv(got, (me + n - 1) % n);
      reduced.wait();
    }
    send.wait();
    expect_sum(sum, stage->size());
    expect_sum(got, (me + n - 1) % n);
    stage->close();
  });
}

TEST(Orders, AReceiveIsPostedWhenItIsCalled) {
  in_every_way([](ProcessGroup& world, std::int64_t size) {
    if (world.size() == 1 || world.rank() > 1) return;
    const Tensor first = Tensor::zeros({size}), second = Tensor::zeros({size});
    if (world.rank() == 0) {
      world.send(ones(size), 1, 2);
      world.send(ones(size), 1, 1);
    } else {
      Work later = world.irecv(second, 0, 2);
      world.recv(first, 0, 1);
      later.wait();
      expect_sum(first, 1);
      expect_sum(second, 1);
    }
  });
}

// Rank 0 is inside a blocking call of MPI, where no Lockstep code runs, until the others, which
// wait for a sum that needs rank 0, get there too.
TEST(Orders, TheProgramsOwnCollectiveMayBlockWhileAWorkIsInFlight) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  ASSERT_EQ(level, MPI_THREAD_MULTIPLE);
  in_every_way([](ProcessGroup& world, std::int64_t size) {
    const Tensor t = ones(size);
    Work work = world.all_reduce(t, ReduceOp::sum);
    if (world.rank() > 0) work.wait();
    int mine = 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    work.wait();
    EXPECT_EQ(sum, world.size());
    expect_sum(t, world.size());
  });
}

TEST(Orders, AGroupIdleForASecondIsProgressedWhenItNeedsIt) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto world = make_mpi_group(MPI_COMM_WORLD, {});
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const Tensor t = ones(1000);
  Work work = world->all_reduce(t, ReduceOp::sum);
  if (world->rank() > 0) work.wait();
  MPI_Barrier(MPI_COMM_WORLD);  // rank 0 makes no other call until everybody has the sum
  work.wait();
  expect_sum(t, world->size());
}

TEST(Orders, ATimeOutNamesTheOtherOperationsInFlight) {
  std::vector<std::shared_ptr<ProcessGroup>> groups;  // kept while another rank waits
  const auto attempt = [&](std::chrono::milliseconds deadline) -> std::string {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto world = groups.emplace_back(make_mpi_group(MPI_COMM_WORLD, {.timeout = deadline}));
    const auto other = groups.emplace_back(same_ranks(*world));
    if (world->size() == 1 || world->rank() > 0) return "";
    const Tensor a = ones(1000), b = ones(1000);
    Work also = other->broadcast(b, 0);
    std::string message = "did not time out";
    try {
      world->all_reduce(a, ReduceOp::sum).wait();
    } catch (const std::exception& error) {
      message = error.what();
    }
    const std::string part = "in flight here in another group: broadcast(root 0) #";
    return message.find(part) == std::string::npos ? message : "";
  };
  test::hold_at_deadlines(std::chrono::milliseconds(300), attempt, [](bool wrong) {
    int any = wrong ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any != 0;
  });
}

}  // namespace
}  // namespace lockstep
