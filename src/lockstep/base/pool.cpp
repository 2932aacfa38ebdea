#include <lockstep/base/pool.hpp>

#include <algorithm>

namespace lockstep {

FreeCells::FreeCells(std::size_t bytes, std::size_t alignment) noexcept
    : bytes_(std::max(bytes, sizeof(Cell))), alignment_(std::max(alignment, alignof(Cell))) {}

void* FreeCells::take() {
  {
    const std::lock_guard lock(mutex_);
    if (free_) return std::exchange(free_, free_->next);
  }
  return ::operator new (bytes_, std::align_val_t{alignment_});
}

void FreeCells::give(void* cell) noexcept {
  auto* const returned = ::new (cell) Cell;
  const std::lock_guard lock(mutex_);
  returned->next = std::exchange(free_, returned);
}

}  // namespace lockstep
