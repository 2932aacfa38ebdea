// Signals that come while math libraries compute.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include <lockstep/tensor/half.hpp>
#include <lockstep/tensor/math/gemm.hpp>

namespace lockstep {
namespace {

std::atomic<std::uintptr_t> stack_begin, stack_end;
std::atomic<int> handled, handled_elsewhere;

void handle(int) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  ++handled;
  if (here < stack_begin || here >= stack_end) ++handled_elsewhere;
}

/// What is added up of operands of T.
template <class T>
using ProductSum = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
class Signals : public testing::Test {};
using Operands = testing::Types<float, double, BFloat16>;
TYPED_TEST_SUITE(Signals, Operands);

// A handler's frame lies where the stack pointer points: outside of the stack it overwrites the
// heap.
TYPED_TEST(Signals, DuringAProductAreHandledOnTheStack) {
  using T = TypeParam;
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  void* begin = nullptr;
  std::size_t bytes = 0;
  pthread_attr_getstack(&attributes, &begin, &bytes);
  pthread_attr_destroy(&attributes);
  stack_begin = reinterpret_cast<std::uintptr_t>(begin);
  stack_end = stack_begin + bytes;

  struct sigaction action {
  }, before{};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR2, &action, &before);
  std::atomic<bool> over{false};
  std::thread sender([&over, computes = pthread_self()] {
    while (!over) {
      pthread_kill(computes, SIGUSR2);
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  });
  constexpr std::int64_t n = 256;
  const std::vector<T> a(n * n, T(0.5F)), b(n * n, T(2.0F));
  std::vector<ProductSum<T>> c(n * n);
  handled = 0;
  for (int round = 0; round < 1000 && (round < 50 || handled < 50); ++round) {
    math::gemm(n, n, n, {a.data(), n}, {b.data(), n, round % 2 == 0}, ProductSum<T>{0}, c.data(),
               n);
    EXPECT_EQ(c, std::vector<ProductSum<T>>(n * n, ProductSum<T>{256}));
  }
  over = true;
  sender.join();
  sigaction(SIGUSR2, &before, nullptr);
  EXPECT_GT(handled, 0);
  EXPECT_EQ(handled_elsewhere, 0);
}

}  // namespace
}  // namespace lockstep
