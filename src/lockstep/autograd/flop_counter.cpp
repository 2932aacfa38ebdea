#include <lockstep/autograd/flop_counter.hpp>

namespace lockstep {
namespace {

FlopCounter*& innermost() noexcept {
  thread_local FlopCounter* counter = nullptr;
  return counter;
}

}  // namespace

FlopCounter::FlopCounter() : outer_(innermost()) { innermost() = this; }

FlopCounter::~FlopCounter() { innermost() = outer_; }

void count_flops(std::int64_t flops) noexcept {
  for (FlopCounter* counter = innermost(); counter; counter = counter->outer_) {
    counter->flops_ += flops;
  }
}

void count_nominal_flops(std::int64_t flops) noexcept {
  count_flops(flops);
  for (FlopCounter* counter = innermost(); counter; counter = counter->outer_) {
    counter->nominal_flops_ += flops;
  }
}

}  // namespace lockstep
