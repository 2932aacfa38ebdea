#pragma once
#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

#include <lockstep/base/spin_lock.hpp>

namespace lockstep {

/// A thread-safe free list of cells of one size, which are kept for the life of the process.
class FreeCells {
 public:
  FreeCells(std::size_t bytes, std::size_t alignment) noexcept
      : bytes_(std::max(bytes, sizeof(Cell))), alignment_(std::max(alignment, alignof(Cell))) {}
  /// A cell that was given, or a new one.
  [[nodiscard]] void* take() {
    {
      const std::lock_guard lock(lock_);
      if (free_) return std::exchange(free_, free_->next);
    }
    return ::operator new (bytes_, std::align_val_t{alignment_});
  }
  void give(void* cell) noexcept {
    auto* const returned = ::new (cell) Cell;
    const std::lock_guard lock(lock_);
    returned->next = std::exchange(free_, returned);
  }

 private:
  struct Cell {
    Cell* next;
  };

  std::size_t bytes_, alignment_;
  SpinLock lock_;
  Cell* free_ = nullptr;
};

/// Objects of one type in such cells: `make` constructs, `recycle` destroys. Thread-safe.
template <class T>
class ObjectPool {
 public:
  static ObjectPool& instance() {
    static ObjectPool* pool = new ObjectPool;  // never destroyed: records may outlive main()
    return *pool;
  }

  template <class... Args>
  T* make(Args&&... args) {
    void* cell = cells_.take();
    try {
      return ::new (cell) T(std::forward<Args>(args)...);
    } catch (...) {
      cells_.give(cell);
      throw;
    }
  }

  void recycle(T* object) noexcept {
    object->~T();
    cells_.give(object);
  }

 private:
  FreeCells cells_{sizeof(T), alignof(T)};
};

}  // namespace lockstep
