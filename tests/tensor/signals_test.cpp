// Signals that come while math libraries compute.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <thread>
#include <vector>

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

// A handler's frame lies where the stack pointer points: outside of the stack it overwrites the
// heap.
TEST(Signals, DuringAProductAreHandledOnTheStack) {
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
  const std::vector<float> a(n * n, 0.5F), b(n * n, 2.0F);
  std::vector<float> c(n * n);
  for (int round = 0; round < 1000 && (round < 50 || handled < 50); ++round) {
    math::gemm(n, n, n, {a.data(), n}, {b.data(), n, round % 2 == 0}, 0.0F, c.data(), n);
    EXPECT_EQ(c, std::vector<float>(n * n, 256.0F));
  }
  over = true;
  sender.join();
  sigaction(SIGUSR2, &before, nullptr);
  EXPECT_GT(handled, 0);
  EXPECT_EQ(handled_elsewhere, 0);
}

}  // namespace
}  // namespace lockstep
