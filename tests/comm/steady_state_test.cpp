// Counts what reaches operator new: the steady state of a collective must not.
#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>
#include <comm/backend.hpp>

namespace {
std::atomic<long> allocations = 0;

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded ? rounded : alignment)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace lockstep {
namespace {

TEST(SteadyState, ReachesOperatorNewNever) {
  test::on_every_group([](ProcessGroup& group) {
    const auto first = Tensor::full({21840}, 1.0);
    const auto second = Tensor::full({10}, 1.0);
    const auto rows = Tensor::empty({group.size(), 10});
    const auto step = [&] {
      auto a = group.all_reduce(first, ReduceOp::avg);
      auto b = group.all_reduce(second, ReduceOp::avg);
      a.wait();
      b.wait();
      group.broadcast(second, 0).wait();
      group.all_gather(second, rows).wait();
      static_cast<void>(all_reduce_scalar(group, 1.0, ReduceOp::sum));
    };
    for (int i = 0; i < 20; ++i) step();
    group.barrier();
    const long before = allocations;
    group.barrier();
    for (int i = 0; i < 100; ++i) step();
    group.barrier();
    const long during = allocations - before;
    group.barrier();
    EXPECT_EQ(during, 0) << "on rank " << group.rank() << " of " << group.size();
    EXPECT_GT(before, 0) << "the counter does not count";
  });
}

}  // namespace
}  // namespace lockstep
