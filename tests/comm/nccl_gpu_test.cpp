// Tests of the nccl backend that need a GPU, besides the tests of every backend.
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <comm/backend.hpp>
#include <comm/nccl_gpu.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/coalescing.hpp>

namespace lockstep {
namespace {

Tensor on_gpu(const std::vector<float>& elements) {
  const auto memory = test::gpu_memory(static_cast<std::int64_t>(elements.size() * sizeof(float)));
  const auto t =
      Tensor::over(memory.storage(), 0, {static_cast<std::int64_t>(elements.size())}, DType::f32);
  test::write_gpu(t, elements.data());
  return t;
}

std::vector<float> on_host(const Tensor& t) {
  std::vector<float> elements(static_cast<std::size_t>(t.numel()));
  test::read_gpu(t, elements.data());
  return elements;
}

TEST(NcclOnGpu, MessagesThatCrossGoInOneBatch) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size(), next = (group.rank() + 1) % n, before = (group.rank() + n - 1) % n;
    const auto out = on_gpu(std::vector<float>(1 << 20, static_cast<float>(group.rank())));
    const auto in = on_gpu(std::vector<float>(1 << 20, -1.0F));
    const P2POp both[] = {{P2POp::Kind::isend, out, next}, {P2POp::Kind::irecv, in, before}};
    batch_isend_irecv(group, both).wait();
    EXPECT_EQ(on_host(in), std::vector<float>(1 << 20, static_cast<float>(before)));
  });
}

TEST(NcclOnGpu, AReadBehindAWaitSeesTheResult) {
  test::on_every_group([](ProcessGroup& group) {
    const auto t = on_gpu(std::vector<float>(1 << 22, 1.0F));
    for (int i = 0; i < 20; ++i) group.all_reduce(t, ReduceOp::max).wait();
    group.all_reduce(t, ReduceOp::sum).wait();
    EXPECT_EQ(on_host(t), std::vector<float>(1 << 22, static_cast<float>(group.size())));
  });
}

TEST(NcclOnGpu, AGroupWithAMissingPeerEndsByTheDeadline) {
  test::on_every_new_group(
      [](ProcessGroup& group) {
        if (group.size() < 2) return;
        if (group.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::seconds(3));
          return;
        }
        const auto t = on_gpu(std::vector<float>(64, 1.0F));
        EXPECT_THROW(group.all_reduce(t, ReduceOp::sum).wait(), TimeoutError);
        EXPECT_THROW(group.barrier(), CommError);
        EXPECT_EQ(on_host(t), std::vector<float>(64, 1.0F));
      },
      {.timeout = std::chrono::seconds(2)});
}

}  // namespace
}  // namespace lockstep
