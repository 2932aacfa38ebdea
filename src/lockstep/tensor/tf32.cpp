#include <lockstep/tensor/tf32.hpp>

#include <atomic>

namespace lockstep {
namespace {

std::atomic<bool> is_allowed = false;

}  // namespace

void allow_tf32(bool on) noexcept { is_allowed.store(on, std::memory_order_relaxed); }
bool tf32_allowed() noexcept { return is_allowed.load(std::memory_order_relaxed); }

}  // namespace lockstep
