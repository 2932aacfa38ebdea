#pragma once
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

namespace lockstep {

/// A thread-safe free list of objects of one type: `make` constructs in a recycled cell or a new
/// one, `recycle` destroys and keeps the cell for the life of the process.
template <class T>
class ObjectPool {
 public:
  static ObjectPool& instance() {
    static ObjectPool* pool = new ObjectPool;  // never destroyed: records may outlive main()
    return *pool;
  }

  template <class... Args>
  T* make(Args&&... args) {
    void* cell = take();
    try {
      return ::new (cell) T(std::forward<Args>(args)...);
    } catch (...) {
      give(cell);
      throw;
    }
  }

  void recycle(T* object) noexcept {
    object->~T();
    give(object);
  }

 private:
  union Cell {
    Cell* next;
    alignas(T) std::byte bytes[sizeof(T)];
  };

  void* take() {
    {
      const std::lock_guard lock(mutex_);
      if (free_) return std::exchange(free_, free_->next);
    }
    return ::operator new (sizeof(Cell), std::align_val_t{alignof(Cell)});
  }

  void give(void* object) noexcept {
    auto* cell = static_cast<Cell*>(object);
    const std::lock_guard lock(mutex_);
    cell->next = std::exchange(free_, cell);
  }

  std::mutex mutex_;
  Cell* free_ = nullptr;
};

}  // namespace lockstep
