// Collectives over several nodes: the messages between nodes, and the order of reductions. This
// program stands between the library and MPI, and counts.
#include <mpi.h>

#include <array>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/tensors.hpp>
#include <lockstep/comm/coalescing.hpp>
#include <lockstep/tensor/half.hpp>

namespace lockstep {
namespace {

/// Data that this rank has passed to MPI to send or to reduce.
struct Sent {
  int calls = 0;
  std::int64_t reduced_bytes = 0;  // by MPI
  std::int64_t moved_bytes = 0;    // by everything else
};
Sent sent;

std::int64_t bytes_of(std::int64_t count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return count * size;
}

void count_moved(std::int64_t count, MPI_Datatype type) {
  ++sent.calls;
  sent.moved_bytes += bytes_of(count, type);
}

void count_reduced(std::int64_t count, MPI_Datatype type) {
  ++sent.calls;
  sent.reduced_bytes += bytes_of(count, type);
}

int size_of_comm(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

}  // namespace
}  // namespace lockstep

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {
using lockstep::count_moved;
using lockstep::count_reduced;
using lockstep::size_of_comm;

int MPI_Ibcast(void* buffer, int n, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* r) {
  count_moved(n, type);
  return PMPI_Ibcast(buffer, n, type, root, comm, r);
}
int MPI_Iallgather(const void* in, int n, MPI_Datatype type, void* out, int m, MPI_Datatype to,
                   MPI_Comm comm, MPI_Request* r) {
  count_moved(m, to);
  return PMPI_Iallgather(in, n, type, out, m, to, comm, r);
}
int MPI_Iallgatherv(const void* in, int n, MPI_Datatype type, void* out, const int* m,
                    const int* begins, MPI_Datatype to, MPI_Comm comm, MPI_Request* r) {
  count_moved(m[0], to);
  return PMPI_Iallgatherv(in, n, type, out, m, begins, to, comm, r);
}
int MPI_Igather(const void* in, int n, MPI_Datatype type, void* out, int m, MPI_Datatype to,
                int root, MPI_Comm comm, MPI_Request* r) {
  if (in != MPI_IN_PLACE) count_moved(n, type);
  return PMPI_Igather(in, n, type, out, m, to, root, comm, r);
}
int MPI_Ialltoall(const void* in, int n, MPI_Datatype type, void* out, int m, MPI_Datatype to,
                  MPI_Comm comm, MPI_Request* r) {
  count_moved(static_cast<std::int64_t>(n) * size_of_comm(comm), type);
  return PMPI_Ialltoall(in, n, type, out, m, to, comm, r);
}
int MPI_Ialltoallv(const void* in, const int* n, const int* from, MPI_Datatype type, void* out,
                   const int* m, const int* begins, MPI_Datatype to, MPI_Comm comm,
                   MPI_Request* r) {
  count_moved(std::accumulate(n, n + size_of_comm(comm), std::int64_t{0}), type);
  return PMPI_Ialltoallv(in, n, from, type, out, m, begins, to, comm, r);
}
int MPI_Isend(const void* in, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* r) {
  count_moved(n, type);
  return PMPI_Isend(in, n, type, peer, tag, comm, r);
}
int MPI_Iallreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* r) {
  count_reduced(n, type);
  return PMPI_Iallreduce(in, out, n, type, op, comm, r);
}
int MPI_Ireduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm, MPI_Request* r) {
  count_reduced(n, type);
  return PMPI_Ireduce(in, out, n, type, op, root, comm, r);
}
int MPI_Ireduce_scatter(const void* in, void* out, const int* n, MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm, MPI_Request* r) {
  count_reduced(std::accumulate(n, n + size_of_comm(comm), std::int64_t{0}), type);
  return PMPI_Ireduce_scatter(in, out, n, type, op, comm, r);
}
int MPI_Ireduce_scatter_block(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm, MPI_Request* r) {
  count_reduced(static_cast<std::int64_t>(n) * size_of_comm(comm), type);
  return PMPI_Ireduce_scatter_block(in, out, n, type, op, comm, r);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* r) {
  ++lockstep::sent.calls;
  return PMPI_Ibarrier(comm, r);
}
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

namespace lockstep {
namespace {

using test::Arena;

/// Data that `call` makes this rank send, while no other rank of the group does anything else.
Sent sent_by(ProcessGroup& group, const std::function<void()>& call) {
  group.barrier();
  sent = {};
  call();
  const Sent found = sent;
  group.barrier();
  return found;
}

/// A group's ranks by node, in the nodes' order; `world_ranks[r]` is rank r of the group.
std::vector<std::vector<int>> nodes_of(const std::vector<int>& world_ranks) {
  std::vector<std::vector<int>> nodes;
  const auto world = [&](int r) { return world_ranks[static_cast<std::size_t>(r)]; };
  for (int r = 0; r < static_cast<int>(world_ranks.size()); ++r) {
    bool found = false;
    for (auto& node : nodes) {
      if (!test::share_memory(world(node[0]), world(r))) continue;
      node.push_back(r);
      found = true;
    }
    if (!found) nodes.push_back({r});
  }
  return nodes;
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

bool is_leader(const ProcessGroup& group) {
  for (const auto& node : nodes_of(all_ranks(group.size()))) {
    if (node[0] == group.rank()) return true;
  }
  return false;
}

struct Call {
  std::string name;
  std::function<void(const Tensor& one, const Tensor& all)> make;
};

/// The collectives in which only leaders send between nodes, with tensors [n] and [size, n].
std::vector<Call> calls_of(ProcessGroup& group) {
  const int root = group.size() - 1;
  return {
      {"all_reduce",
       [&](const Tensor& one, const Tensor&) { group.all_reduce(one, ReduceOp::sum).wait(); }},
      {"reduce", [&, root](const Tensor& one,
                           const Tensor&) { group.reduce(one, root, ReduceOp::sum).wait(); }},
      {"broadcast",
       [&, root](const Tensor& one, const Tensor&) { group.broadcast(one, root).wait(); }},
      {"all_gather",
       [&](const Tensor& one, const Tensor& all) { group.all_gather(one, all).wait(); }},
      {"reduce_scatter",
       [&](const Tensor& one, const Tensor& all) {
         group.reduce_scatter(all, one, ReduceOp::sum).wait();
       }},
  };
}

TEST(HierarchicalCollective, OnlyLeadersSend) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      for (const DType dtype : test::every_dtype) {
        for (const std::int64_t n : {1, 100, 5000}) {
          for (const Call& call : calls_of(group)) {
            SCOPED_TRACE(call.name + " of " + std::to_string(n) + " " +
                         std::string(name_of(dtype)));
            arena.reset();
            const std::vector<double> ones(static_cast<std::size_t>(n), 1.0);
            const std::vector<double> rows(ones.size() * static_cast<std::size_t>(group.size()),
                                           1.0);
            const auto one = arena.take({n}, dtype, ones);
            const auto all = arena.take({group.size(), n}, dtype, rows);
            const Sent found = sent_by(group, [&] { call.make(one, all); });
            EXPECT_EQ(found.calls > 0, is_leader(group)) << found.calls << " calls of MPI";
            EXPECT_LE(found.reduced_bytes, 16)
                << "MPI has reduced more than what tells calls apart";
          }
        }
      }
      const Sent found = sent_by(group, [&] { group.barrier(); });
      // Leaders send their knowledge to the next, the second next, the fourth next.
      const auto nodes = static_cast<unsigned>(nodes_of(all_ranks(group.size())).size());
      EXPECT_EQ(found.calls, is_leader(group) ? std::bit_width(nodes - 1) : 0) << "of a barrier";
    };
    test::in_every_place(claim, everybody, 1 << 19);
  });
}

TEST(HierarchicalCollective, SixteenBitFloatsTravelAsSixteenBits) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      // Large enough for shares to be whole.
      for (const std::int64_t n : {std::int64_t{64}, std::int64_t{1} << 16}) {
        for (const Call& call : calls_of(group)) {
          const auto moved = [&](DType dtype) {
            arena.reset();
            const auto one = arena.take({n}, dtype), all = arena.take({group.size(), n}, dtype);
            one.zero();
            all.zero();
            return sent_by(group, [&] { call.make(one, all); }).moved_bytes;
          };
          const std::int64_t of_f32 = moved(DType::f32);
          // Pieces of 32-bit floats hold half as many: their shares may be padded once more.
          for (const DType half : {DType::bf16, DType::f16}) {
            const std::int64_t of_half = moved(half);
            EXPECT_LE(2 * of_half, of_f32 + 64) << call.name << " of " << n;
            EXPECT_EQ(of_half > 0, of_f32 > 0);
          }
          if (call.name == "all_reduce") {
            EXPECT_EQ(of_f32 > 0, is_leader(group));
          }
        }
      }
    };
    test::in_every_place(claim, everybody, 1 << 21);
  });
}

/// Numbers of different magnitude, so that every order of summation gives other bits.
std::vector<double> rugged(int rank, std::int64_t n) {
  std::vector<double> numbers(static_cast<std::size_t>(n));
  std::uint32_t state = 12345U + 7919U * static_cast<std::uint32_t>(rank);
  for (double& x : numbers) {
    state = state * 1664525U + 1013904223U;
    x = (static_cast<double>(state) * 0x1.0p-31 - 1.0) * static_cast<double>(1U << (state >> 29U));
  }
  return numbers;
}

/// x rounded to `dtype`.
template <class Wide>
Wide rounded(DType dtype, Wide x) {
  if (dtype == DType::bf16) return static_cast<Wide>(float{BFloat16(static_cast<float>(x))});
  if (dtype == DType::f16) return static_cast<Wide>(float{Float16(static_cast<float>(x))});
  return x;
}

/// The results of reductions of rugged().
struct Expected {
  std::vector<double> sum, mean;
};

/// The guaranteed order: sums in rank order within a node, then in the nodes' order; 16-bit floats
/// in f32, rounded where they leave the node, and at the end. A mean is divided at the end.
template <class Wide>
Expected reduced(DType dtype, const std::vector<std::vector<int>>& nodes, int size,
                 std::int64_t n) {
  std::vector<std::vector<double>> brought;
  for (int r = 0; r < size; ++r) brought.push_back(rugged(r, n));
  const auto element = [&](int r, std::size_t i) {
    return rounded(dtype, static_cast<Wide>(brought[static_cast<std::size_t>(r)][i]));
  };
  Expected expected;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    Wide total = 0;
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      Wide part = element(nodes[node][0], i);
      for (std::size_t r = 1; r < nodes[node].size(); ++r) part += element(nodes[node][r], i);
      part = rounded(dtype, part);
      total = node == 0 ? part : total + part;
    }
    expected.sum.push_back(rounded(dtype, total));
    expected.mean.push_back(rounded(dtype, total * static_cast<Wide>(1.0 / size)));
  }
  return expected;
}

Expected reduced(DType dtype, const std::vector<std::vector<int>>& nodes, int size,
                 std::int64_t n) {
  return dtype == DType::f64 ? reduced<double>(dtype, nodes, size, n)
                             : reduced<float>(dtype, nodes, size, n);
}

constexpr DType floats[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
// Sizes around a piece's capacity, and of several pieces.
constexpr std::int64_t lengths[] = {0, 1, 63, 32769, 65537, 150001};

/// All reductions, `n` elements a rank, in flight together.
void expect_reduced(ProcessGroup& group, Arena& arena, DType dtype, std::int64_t n,
                    const Expected& expected) {
  SCOPED_TRACE(std::to_string(n) + " " + std::string(name_of(dtype)));
  const int size = group.size(), rank = group.rank(), root = static_cast<int>(n % size);
  const std::int64_t row = n / size;
  arena.reset();
  const auto mine = rugged(rank, n);
  const std::vector<double> rows(mine.begin(), mine.begin() + row * size);
  const auto all = arena.take({n}, dtype, mine), input = arena.take({n}, dtype, mine);
  const auto output = arena.take({n}, dtype), on_root = arena.take({n}, dtype, mine);
  const auto scattered = arena.take({size, row}, dtype, rows);
  const auto own = scattered.slice(rank, rank + 1).reshape({row});
  Coalescing batch(group);
  static_cast<void>(group.all_reduce(all, ReduceOp::sum));
  static_cast<void>(group.all_reduce(input, output, ReduceOp::avg));
  static_cast<void>(group.reduce(on_root, root, ReduceOp::sum));
  static_cast<void>(group.reduce_scatter(scattered, own, ReduceOp::sum));
  batch.end().wait();
  EXPECT_EQ(test::values_of(all), expected.sum);
  EXPECT_EQ(test::values_of(output), expected.mean);
  EXPECT_EQ(test::values_of(input), test::values_of(test::tensor_of({n}, dtype, mine)));
  if (rank == root) {
    EXPECT_EQ(test::values_of(on_root), expected.sum);
  }
  const auto begin = expected.sum.begin() + rank * row;
  EXPECT_EQ(test::values_of(own), std::vector<double>(begin, begin + row));
}

TEST(HierarchicalCollective, ReductionsGoInRankOrderWithinANodeThenInTheNodesOrder) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto nodes = nodes_of(all_ranks(everybody.size()));
    std::map<std::pair<DType, std::int64_t>, Expected> expected;
    for (const DType dtype : floats) {
      for (const std::int64_t n : lengths)
        expected[{dtype, n}] = reduced(dtype, nodes, everybody.size(), n);
    }
    const auto claim = [&](ProcessGroup& group, Arena& arena) {
      for (const auto& [what, result] : expected)
        expect_reduced(group, arena, what.first, what.second, result);
    };
    test::in_every_place(claim, everybody, 10 << 20);
  });
}

// Of nodes of two ranks each: a rank that is alone on its node brings half of it.
TEST(HierarchicalCollective, TheMeanOfOneSmallHalfIsThatHalf) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      for (const auto& ranks : nodes_of(all_ranks(group.size()))) {
        if (ranks.size() != 2) return;
      }
      for (const std::uint16_t bits : {0x1, 0x3ff, 0x401}) {  // subnormal, subnormal, hardly normal
        for (const std::int64_t n : {5, 70001}) {
          arena.reset();
          const double value = std::bit_cast<Float16>(bits);
          const std::vector<double> all(static_cast<std::size_t>(n), value);
          const auto t = arena.take({n}, DType::f16, all);
          group.all_reduce(t, ReduceOp::avg).wait();
          EXPECT_EQ(test::values_of(t), all) << bits;
        }
      }
    };
    test::in_every_place(claim, everybody, 1 << 18);
  });
}

TEST(HierarchicalCollective, RanksOfANodeNeedNotFollowEachOther) {
  test::on_every_group([](ProcessGroup& everybody) {
    // 0, 2, 4 ... 1, 3 ...
    std::vector<int> ranks;
    for (int begin = 0; begin < 2; ++begin) {
      for (int r = begin; r < everybody.size(); r += 2) ranks.push_back(r);
    }
    const auto group = everybody.new_group(ranks);
    Arena arena(*group, test::Place::own, 10 << 20);
    for (const std::int64_t n : lengths) {
      expect_reduced(*group, arena, DType::f32, n,
                     reduced(DType::f32, nodes_of(ranks), group->size(), n));
    }
    const std::int64_t n = 70001;
    for (int root = 0; root < group->size(); ++root) {
      arena.reset();
      const auto row = arena.take({n}, DType::i32, test::values(DType::i32, group->rank(), n));
      const auto all = arena.take({group->size(), n}, DType::i32);
      group->all_gather(row, all).wait();
      group->broadcast(row, root).wait();
      EXPECT_EQ(test::values_of(all), test::of_all_ranks(DType::i32, group->size(), n));
      EXPECT_EQ(test::values_of(row), test::values(DType::i32, root, n));
    }
    group->close();
  });
}

TEST(HierarchicalCollective, CopiesOfAnySizeArrive) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      int root = 0;
      for (const DType dtype : {DType::u8, DType::i64}) {
        for (const std::int64_t n : lengths) {
          SCOPED_TRACE(n);
          root = (root + 1) % group.size();
          arena.reset();
          const auto mine = test::values(dtype, group.rank(), n);
          const auto t = arena.take({n}, dtype, mine), row = arena.take({n}, dtype, mine);
          const auto all = arena.take({group.size(), n}, dtype);
          auto first = group.broadcast(t, root);
          auto second = group.all_gather(row, all);
          second.wait();
          first.wait();
          EXPECT_EQ(test::values_of(t), test::values(dtype, root, n));
          EXPECT_EQ(test::values_of(all), test::of_all_ranks(dtype, group.size(), n));
        }
      }
    };
    test::in_every_place(claim, everybody, 10 << 20);
  });
}

// The older operation has the nodes' memory until it is over; neither group waits for the other.
TEST(HierarchicalCollective, GroupsInFlightTogetherDoNotMixTheirPieces) {
  test::on_every_group([](ProcessGroup& group) {
    std::vector<int> backwards = all_ranks(group.size());
    std::reverse(backwards.begin(), backwards.end());
    const auto other = group.new_group(backwards);
    constexpr std::int64_t n = 150001;
    const auto expected = test::values(DType::f64, 0, n);
    for (int round = 0; round < 5; ++round) {
      std::vector<Tensor> tensors;
      std::vector<Work> works;
      for (int i = 0; i < 3; ++i) {
        for (ProcessGroup* each : {&group, other.get()}) {
          tensors.push_back(test::tensor_of({n}, DType::f64, test::values(DType::f64, i, n)));
          works.push_back(each->all_reduce(tensors.back(), ReduceOp::sum));
        }
      }
      if (group.rank() % 2 == 1) std::reverse(works.begin(), works.end());
      for (Work& work : works) work.wait();
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        auto sums = test::values(DType::f64, static_cast<int>(t / 2), n);
        for (double& sum : sums) sum *= group.size();
        EXPECT_EQ(test::values_of(tensors[t]), sums);
      }
    }
    other->close();
  });
}

}  // namespace
}  // namespace lockstep
