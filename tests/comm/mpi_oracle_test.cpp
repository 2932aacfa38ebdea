// The results of every collective, compared with those of the MPI function of the same name.
#include <cstdint>

#include <gtest/gtest.h>
#include <comm/tensors.hpp>
#include <lockstep/comm/mpi_group.hpp>

namespace lockstep {
namespace {

using test::Counts;

constexpr std::int64_t lengths[] = {1, 60, 3001};

struct Oracle {
  std::shared_ptr<ProcessGroup> group = make_mpi_group(MPI_COMM_WORLD);
  int size = group->size();
  int rank = group->rank();
  ~Oracle() { group->close(); }

  /// This rank's numbers: whole and small, so that sums are exact in any order.
  [[nodiscard]] std::vector<double> numbers(std::int64_t n) const {
    return test::values(DType::f64, rank, n);
  }
};

std::vector<double> zeros(std::int64_t n) {
  return std::vector<double>(static_cast<std::size_t>(n));
}

int as_int(std::int64_t n) { return static_cast<int>(n); }

std::vector<int> as_ints(const Counts& counts) { return {counts.begin(), counts.end()}; }

std::vector<int> offsets(const std::vector<int>& counts) {
  std::vector<int> begins(counts.size());
  for (std::size_t r = 1; r < begins.size(); ++r) begins[r] = begins[r - 1] + counts[r - 1];
  return begins;
}

TEST(MpiOracle, AllReduceAndReduceAgree) {
  const Oracle with;
  struct Pair {
    ReduceOp op;
    MPI_Op theirs;
  };
  for (const auto& [op, theirs] : {Pair{ReduceOp::sum, MPI_SUM},
                                   {ReduceOp::min, MPI_MIN},
                                   {ReduceOp::max, MPI_MAX},
                                   {ReduceOp::product, MPI_PROD}}) {
    for (const auto n : lengths) {
      const auto mine = with.numbers(n);
      auto expected = zeros(n);
      MPI_Allreduce(mine.data(), expected.data(), as_int(n), MPI_DOUBLE, theirs, MPI_COMM_WORLD);
      const auto t = Tensor::from(mine, {n}), on_root = t.clone();
      with.group->all_reduce(t, op).wait();
      EXPECT_EQ(t.to_vector<double>(), expected) << name_of(op);
      with.group->reduce(on_root, 0, op).wait();
      EXPECT_EQ(on_root.to_vector<double>(), with.rank == 0 ? expected : mine) << name_of(op);
    }
  }
}

TEST(MpiOracle, BitwiseReductionsAgree) {
  const Oracle with;
  struct Pair {
    ReduceOp op;
    MPI_Op theirs;
  };
  for (const auto& [op, theirs] :
       {Pair{ReduceOp::band, MPI_BAND}, {ReduceOp::bor, MPI_BOR}, {ReduceOp::bxor, MPI_BXOR}}) {
    for (const auto n : lengths) {
      std::vector<std::int64_t> mine(static_cast<std::size_t>(n)), expected(mine.size());
      for (std::size_t i = 0; i < mine.size(); ++i) {
        mine[i] = static_cast<std::int64_t>((i + 1) * 0x9e3779b97f4a7c15U) ^ (1L << with.rank);
      }
      MPI_Allreduce(mine.data(), expected.data(), as_int(n), MPI_LONG, theirs, MPI_COMM_WORLD);
      const auto t = Tensor::from(mine, {n});
      with.group->all_reduce(t, op).wait();
      EXPECT_EQ(t.to_vector<std::int64_t>(), expected) << name_of(op);
    }
  }
}

TEST(MpiOracle, BroadcastGatherAndScatterAgree) {
  const Oracle with;
  const int root = with.size - 1;
  for (const auto n : lengths) {
    auto expected = with.numbers(n);
    const auto t = Tensor::from(expected, {n});
    MPI_Bcast(expected.data(), as_int(n), MPI_DOUBLE, root, MPI_COMM_WORLD);
    with.group->broadcast(t, root).wait();
    EXPECT_EQ(t.to_vector<double>(), expected);

    const auto mine = with.numbers(n);
    auto all = zeros(n * with.size);
    MPI_Gather(mine.data(), as_int(n), MPI_DOUBLE, all.data(), as_int(n), MPI_DOUBLE, root,
               MPI_COMM_WORLD);
    const auto gathered = Tensor::zeros({with.size, n}, DType::f64);
    with.group->gather(Tensor::from(mine, {n}), gathered, root).wait();
    EXPECT_EQ(gathered.to_vector<double>(), all);

    auto part = zeros(n);
    MPI_Scatter(all.data(), as_int(n), MPI_DOUBLE, part.data(), as_int(n), MPI_DOUBLE, root,
                MPI_COMM_WORLD);
    const auto scattered = Tensor::zeros({n}, DType::f64);
    with.group->scatter(gathered, scattered, root).wait();
    EXPECT_EQ(scattered.to_vector<double>(), part);
  }
}

TEST(MpiOracle, AllGatherReduceScatterAndAllToAllAgree) {
  const Oracle with;
  for (const auto n : lengths) {
    const auto mine = with.numbers(n);
    auto all = zeros(n * with.size);
    MPI_Allgather(mine.data(), as_int(n), MPI_DOUBLE, all.data(), as_int(n), MPI_DOUBLE,
                  MPI_COMM_WORLD);
    const auto gathered = Tensor::zeros({with.size, n}, DType::f64);
    with.group->all_gather(Tensor::from(mine, {n}), gathered).wait();
    EXPECT_EQ(gathered.to_vector<double>(), all);

    const auto rows = with.numbers(n * with.size);
    const auto input = Tensor::from(rows, {with.size, n});
    auto part = zeros(n);
    MPI_Reduce_scatter_block(rows.data(), part.data(), as_int(n), MPI_DOUBLE, MPI_SUM,
                             MPI_COMM_WORLD);
    const auto reduced = Tensor::zeros({n}, DType::f64);
    with.group->reduce_scatter(input, reduced, ReduceOp::sum).wait();
    EXPECT_EQ(reduced.to_vector<double>(), part);

    MPI_Alltoall(rows.data(), as_int(n), MPI_DOUBLE, all.data(), as_int(n), MPI_DOUBLE,
                 MPI_COMM_WORLD);
    with.group->all_to_all(input, gathered).wait();
    EXPECT_EQ(gathered.to_vector<double>(), all);
  }
}

TEST(MpiOracle, CollectivesWithCountsAgree) {
  const Oracle with;
  const Counts counts = test::uneven(with.size);
  const auto ints = as_ints(counts), begins = offsets(ints);
  const auto me = static_cast<std::size_t>(with.rank);
  const std::int64_t total = test::total(counts);
  const auto mine = with.numbers(counts[me]), rows = with.numbers(total);
  const auto part = Tensor::from(mine, {counts[me]}), input = Tensor::from(rows, {total});

  auto all = zeros(total);
  MPI_Allgatherv(mine.data(), ints[me], MPI_DOUBLE, all.data(), ints.data(), begins.data(),
                 MPI_DOUBLE, MPI_COMM_WORLD);
  const auto gathered = Tensor::zeros({total}, DType::f64);
  with.group->all_gather_v(part, gathered, counts).wait();
  EXPECT_EQ(gathered.to_vector<double>(), all);
  gathered.zero();
  with.group->gather_v(part, gathered, counts, 0).wait();
  EXPECT_EQ(gathered.to_vector<double>(), with.rank == 0 ? all : zeros(total));

  auto own = zeros(counts[me]);
  MPI_Reduce_scatter(rows.data(), own.data(), ints.data(), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  const auto result = Tensor::zeros({counts[me]}, DType::f64);
  with.group->reduce_scatter_v(input, result, counts, ReduceOp::sum).wait();
  EXPECT_EQ(result.to_vector<double>(), own);

  MPI_Scatterv(rows.data(), ints.data(), begins.data(), MPI_DOUBLE, own.data(), ints[me],
               MPI_DOUBLE, 0, MPI_COMM_WORLD);
  with.group->scatter_v(input, result, counts, 0).wait();
  EXPECT_EQ(result.to_vector<double>(), own);
}

TEST(MpiOracle, AllToAllVAgrees) {
  const Oracle with;
  Counts sent, received;
  for (int r = 0; r < with.size; ++r) {
    sent.push_back((with.rank * 5 + r * 3) % 4 * 50);
    received.push_back((r * 5 + with.rank * 3) % 4 * 50);
  }
  const auto rows = with.numbers(test::total(sent));
  auto expected = zeros(test::total(received));
  const auto out = as_ints(sent), in = as_ints(received);
  MPI_Alltoallv(rows.data(), out.data(), offsets(out).data(), MPI_DOUBLE, expected.data(),
                in.data(), offsets(in).data(), MPI_DOUBLE, MPI_COMM_WORLD);
  const auto output = Tensor::zeros({test::total(received)}, DType::f64);
  with.group->all_to_all_v(Tensor::from(rows, {test::total(sent)}), output, sent, received).wait();
  EXPECT_EQ(output.to_vector<double>(), expected);
}

}  // namespace
}  // namespace lockstep
