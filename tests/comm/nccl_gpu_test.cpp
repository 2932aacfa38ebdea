// The nccl backend on device tensors; ranks may share one GPU (NCCL_HOSTID tells them apart).
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/nccl/communicator.hpp>
#include <lockstep/comm/nccl_group.hpp>

namespace lockstep {
namespace {

constexpr Device gpu{DeviceType::cuda, 0};

/// A tensor on the GPU, also in builds whose own kernels are the host's.
Tensor on_gpu(const std::vector<float>& elements, const Shape& shape) {
  void* data = nullptr;
  const std::size_t bytes = elements.size() * sizeof(float);
  check_cuda(cudaMalloc(&data, bytes + 1), "cudaMalloc");
  check_cuda(cudaMemcpy(data, elements.data(), bytes, cudaMemcpyDefault), "cudaMemcpy");
  const auto storage =
      Storage::borrow(data, bytes, gpu, [](void* p, void*) noexcept { cudaFree(p); });
  return Tensor::over(storage, 0, shape, DType::f32);
}

std::vector<float> on_host(const Tensor& t) {
  std::vector<float> elements(static_cast<std::size_t>(t.numel()));
  check_cuda(cudaMemcpy(elements.data(), t.data(), t.bytes(), cudaMemcpyDefault), "cudaMemcpy");
  return elements;
}

std::vector<float> row_of(int rank, std::int64_t elements) {
  std::vector<float> row(static_cast<std::size_t>(elements));
  std::iota(row.begin(), row.end(), static_cast<float>(1000 * rank));
  return row;
}

std::vector<float> rows_of_all(int ranks, std::int64_t elements) {
  std::vector<float> all;
  for (int r = 0; r < ranks; ++r) {
    const auto row = row_of(r, elements);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

class NcclOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const GroupOptions options{.timeout = std::chrono::seconds(60)};
    const auto control = make_mpi_group(MPI_COMM_WORLD, options);
    setenv("NCCL_HOSTID", std::to_string(control->rank()).c_str(), 1);
    group_ = make_nccl_group(control, gpu, options);
  }
  void TearDown() override {
    if (group_) group_->close();
  }
  std::shared_ptr<ProcessGroup> group_;
};

TEST_F(NcclOnGpu, EveryCollectiveGivesWhatTheHostGives) {
  const int n = group_->size(), rank = group_->rank();
  constexpr std::int64_t width = 1003;
  const auto mine = row_of(rank, width), all = rows_of_all(n, width);
  std::vector<float> sum(mine.size());
  for (int r = 0; r < n; ++r) {
    const auto row = row_of(r, width);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += row[i];
  }

  const auto reduced = on_gpu(mine, {width});
  group_->all_reduce(reduced, ReduceOp::sum).synchronize();
  EXPECT_EQ(on_host(reduced), sum);

  const auto sent = on_gpu(mine, {width});
  group_->broadcast(sent, n - 1).synchronize();
  EXPECT_EQ(on_host(sent), row_of(n - 1, width));

  const auto gathered = on_gpu(std::vector<float>(all.size()), {n, width});
  group_->all_gather(on_gpu(mine, {width}), gathered).synchronize();
  EXPECT_EQ(on_host(gathered), all);

  const auto scattered = on_gpu(std::vector<float>(mine.size()), {width});
  group_->scatter(on_gpu(all, {n, width}), scattered, 0).synchronize();
  EXPECT_EQ(on_host(scattered), mine);

  const auto at_root = on_gpu(std::vector<float>(all.size()), {n, width});
  group_->gather(on_gpu(mine, {width}), at_root, 0).synchronize();
  if (rank == 0) {
    EXPECT_EQ(on_host(at_root), all);
  }

  const auto part = on_gpu(std::vector<float>(mine.size()), {width});
  group_->reduce_scatter(on_gpu(all, {n, width}), part, ReduceOp::avg).synchronize();
  EXPECT_EQ(on_host(part), mine);

  const auto exchanged = on_gpu(std::vector<float>(all.size()), {n, width});
  const auto same_rows = on_gpu(rows_of_all(n, width), {n, width});
  group_->all_to_all(same_rows, exchanged).synchronize();
  std::vector<float> expected;
  for (int r = 0; r < n; ++r) expected.insert(expected.end(), mine.begin(), mine.end());
  EXPECT_EQ(on_host(exchanged), expected);
  group_->barrier();
}

TEST_F(NcclOnGpu, MessagesThatCrossGoInOneBatch) {
  const int n = group_->size(), next = (group_->rank() + 1) % n,
            before = (group_->rank() + n - 1) % n;
  const auto out = on_gpu(row_of(group_->rank(), 17), {17}),
             in = on_gpu(std::vector<float>(17), {17});
  const P2POp both[] = {{P2POp::Kind::isend, out, next}, {P2POp::Kind::irecv, in, before}};
  batch_isend_irecv(*group_, both).synchronize();
  EXPECT_EQ(on_host(in), row_of(before, 17));
}

TEST_F(NcclOnGpu, AnotherCallOnOneRankIsFound) {
  const auto t = on_gpu(row_of(0, 64), {64});
  Work work = group_->rank() == 0 ? group_->all_reduce(t, ReduceOp::max)
                                  : group_->all_reduce(t, ReduceOp::sum);
  EXPECT_THROW(work.synchronize(), CommError);
  group_.reset();
}

}  // namespace
}  // namespace lockstep
