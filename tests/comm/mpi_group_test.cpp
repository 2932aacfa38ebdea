#include <sys/resource.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/node_layout.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

TEST(MpiGroup, AgreesWithRawMpi) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  ASSERT_EQ(group->rank(), world_rank());
  ASSERT_EQ(group->size(), world_size());
  for (const std::int64_t n : {1, 77, 4096, 100003}) {
    std::vector<double> mine(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = static_cast<double>((i * 37 + static_cast<std::size_t>(world_rank()) * 101) % 1000);
    }
    std::vector<double> expected(mine.size());
    MPI_Allreduce(mine.data(), expected.data(), static_cast<int>(n), MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
    const auto t = Tensor::from(mine, {n});
    group->all_reduce(t, ReduceOp::sum).wait();
    EXPECT_EQ(t.to_vector<double>(), expected);  // whole numbers: exact in any order
  }
  group->close();
}

TEST(MpiGroup, OnASubCommunicatorTalksToItsRanksOnly) {
  MPI_Comm parity = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank() % 2, -world_rank(), &parity);  // reversed order
  const auto group = make_mpi_group(parity);
  double expected = 0.0;
  for (int r = world_rank() % 2; r < world_size(); r += 2) expected += r;
  EXPECT_EQ(all_reduce_scalar(*group, world_rank(), ReduceOp::sum), expected);
  int rank_in_parity = -1;
  MPI_Comm_rank(parity, &rank_in_parity);
  EXPECT_EQ(group->rank(), rank_in_parity);
  // The caller may free its own communicator at once: the group has its own.
  MPI_Comm_free(&parity);
  EXPECT_EQ(all_reduce_scalar(*group, 1.0, ReduceOp::sum), group->size());
  group->close();
}

// Each of them needs a number in its messages' tags.
TEST(MpiGroup, ReportsTooManyOpenGroups) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  std::vector<std::shared_ptr<ProcessGroup>> alone;
  const auto split_once_more = [&] { alone.push_back(group->split(group->rank(), 0)); };
  try {
    for (;;) split_once_more();
  } catch (const CommError& error) {
    EXPECT_NE(std::string(error.what()).find("close() groups that are no longer needed"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(alone.size(), 255U);
  alone[100]->close();
  split_once_more();
  EXPECT_EQ(all_reduce_scalar(*alone.back(), 1.0, ReduceOp::sum), 1.0);
  for (auto& each : alone) {
    if (each != alone[100]) each->close();
  }
  group->barrier();
  group->close();
}

TEST(MpiGroup, TwoThreadsSplitGroupsOfOneCommunicatorAtOnce) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const auto split_often = [](ProcessGroup& mine, int number) {
    for (int i = 0; i < 20; ++i) {
      const auto made = mine.split(0, -mine.rank());
      EXPECT_EQ(all_reduce_scalar(*made, number + i, ReduceOp::sum), made->size() * (number + i));
      made->close();
    }
  };
  const auto one = group->split(0, 0), other = group->split(0, 0);
  std::thread thread([&] { split_often(*one, 1000); });
  split_often(*other, 2000);
  thread.join();
  for (const auto& each : {one, other, group}) each->close();
}

int copies = 0;
int deletions = 0;
int count_copy(MPI_Comm, int, void*, void* in, void* out, int* flag) {
  ++copies;
  *static_cast<void**>(out) = in;
  *flag = 1;
  return MPI_SUCCESS;
}
int count_deletion(MPI_Comm, int, void*, void*) {
  ++deletions;
  return MPI_SUCCESS;
}

TEST(MpiGroup, KeepsTheCallersErrorHandlerAndDeletesCopiedAttributes) {
  MPI_Comm mine = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &mine);
  MPI_Comm_set_errhandler(mine, MPI_ERRORS_ARE_FATAL);
  int keyval = MPI_KEYVAL_INVALID;
  int value = 42;
  MPI_Comm_create_keyval(count_copy, count_deletion, &keyval, nullptr);
  MPI_Comm_set_attr(mine, keyval, &value);
  {
    const auto closed = make_mpi_group(mine);
    const auto left_open = make_mpi_group(mine);
    EXPECT_EQ(all_reduce_scalar(*closed, 1.0, ReduceOp::sum), world_size());
    EXPECT_EQ(all_reduce_scalar(*left_open, 1.0, ReduceOp::sum), world_size());
    const int copied = copies;
    closed->close();
    EXPECT_EQ(copied, copies);
    EXPECT_EQ(2 * deletions, copied) << "those of one of two equal groups";
  }
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(mine, &handler);
  EXPECT_EQ(handler, MPI_ERRORS_ARE_FATAL);
  void* found = nullptr;
  int flag = 0;
  MPI_Comm_get_attr(mine, keyval, static_cast<void*>(&found), &flag);
  EXPECT_TRUE(flag);
  EXPECT_EQ(found, &value);
  MPI_Comm_free_keyval(&keyval);
  MPI_Comm_free(&mine);
}

/// Limits this process's further memory, until the end of the scope.
class DataLimit {
 public:
  explicit DataLimit(rlim_t more) {
    std::ifstream status("/proc/self/status");
    std::string word;
    rlim_t kib = 0;
    while (status >> word && word != "VmData:") {
    }
    EXPECT_TRUE(status >> kib);
    getrlimit(RLIMIT_DATA, &before_);
    const rlimit limit{(kib << 10U) + more, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
  }
  ~DataLimit() { setrlimit(RLIMIT_DATA, &before_); }
  DataLimit(const DataLimit&) = delete;
  DataLimit& operator=(const DataLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(MpiGroup, NoRankWaitsForOneWithoutMemoryForASharedBuffer) {
  GroupOptions each_alone;
  each_alone.shared_memory = false;
  const auto group = make_mpi_group(MPI_COMM_WORLD, each_alone);
  constexpr std::int64_t length = 1 << 28;
  const auto make_buffer = [&] { return group->shared_buffer({length}, DType::u8); };
  if (group->rank() == 0) {
    const DataLimit limit(length / 2);
    EXPECT_THROW(static_cast<void>(make_buffer()), std::exception);
  } else {
    EXPECT_EQ(make_buffer().numel(), length);
  }
  EXPECT_EQ(all_reduce_scalar(*group, 1.0, ReduceOp::sum), group->size());
  group->close();
}

TEST(MpiGroup, DestructorIsLocal) {
  auto group = make_mpi_group(MPI_COMM_WORLD);
  // A ring of messages through the destructors: it can only go round if none waits for another
  // rank.
  const int next = (world_rank() + 1) % world_size();
  const int previous = (world_rank() + world_size() - 1) % world_size();
  int token = 0;
  if (world_rank() == 0) {
    group.reset();
    const int start = token;
    MPI_Sendrecv(&start, 1, MPI_INT, next, 0, &token, 1, MPI_INT, previous, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(&token, 1, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    group.reset();
    ++token;
    MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
  }
  EXPECT_EQ(token, world_rank() == 0 ? world_size() - 1 : world_rank());
}

TEST(MpiGroup, AWorkMayOutliveItsGroup) {
  auto group = make_mpi_group(MPI_COMM_WORLD);
  const auto t = Tensor::full({1 << 16}, 1.0);
  auto work = group->all_reduce(t, ReduceOp::sum);
  group.reset();
  work.wait();
  EXPECT_EQ(t.to_vector<float>().back(), world_size());
}

TEST(MpiGroup, RefusesANullCommunicator) {
  EXPECT_THROW(static_cast<void>(make_mpi_group(MPI_COMM_NULL)), CommError);
}

TEST(NodeLayout, FindsTheMachinesThatMpiFinds) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const NodeLayout layout = node_layout(*group);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank(), MPI_INFO_NULL, &node);
  int rank = -1, size = 0;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);
  MPI_Comm_free(&node);
  EXPECT_EQ(layout.local_rank(world_rank()), rank);
  EXPECT_EQ(layout.local_size(world_rank()), size);
  EXPECT_EQ(layout.is_leader(world_rank()), rank == 0);
  group->close();
}

TEST(NodeLayout, RanksMayBePlacedOnMachinesRoundRobin) {
  const NodeLayout layout({"b", "a", "b", "c", "a"});
  EXPECT_EQ(layout.hosts(), (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_EQ(layout.ranks_on(1), (std::vector<int>{1, 4}));
  EXPECT_EQ(layout.local_rank(4), 1);
  EXPECT_EQ(layout.local_size(3), 1);
  EXPECT_EQ(layout.host_of(2), "b");
  EXPECT_TRUE(layout.is_leader(3));
  EXPECT_FALSE(layout.is_leader(2));
}

}  // namespace
}  // namespace lockstep
