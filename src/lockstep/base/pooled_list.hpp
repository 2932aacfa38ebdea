#pragma once
#include <array>
#include <cstddef>
#include <utility>

#include <lockstep/base/pool.hpp>

namespace lockstep {

/// A list that grows by blocks of a pool: it allocates nothing once the pool has enough of them,
/// and its elements stay where they are. T is default-constructible.
template <class T, std::size_t block_size>
class PooledList {
  struct Block {
    std::array<T, block_size> elements{};
    Block* next = nullptr;
  };
  using Pool = ObjectPool<Block>;

 public:
  /// Forward, over elements in their order.
  class Iterator {
   public:
    Iterator(Block* block, std::size_t place) noexcept : block_(block), place_(place) {}
    T& operator*() const noexcept { return block_->elements[place_]; }
    Iterator& operator++() noexcept {
      if (++place_ == block_size) *this = {block_->next, 0};
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    Block* block_;
    std::size_t place_;
  };

  PooledList() = default;
  PooledList(PooledList&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)),
        last_(std::exchange(other.last_, nullptr)),
        in_last_(std::exchange(other.in_last_, block_size)) {}
  PooledList& operator=(PooledList&&) = delete;
  ~PooledList() {
    while (first_) Pool::instance().recycle(std::exchange(first_, first_->next));
  }

  void push_back(T element) {
    if (in_last_ == block_size) {
      Block* const block = Pool::instance().make();
      (last_ ? last_->next : first_) = block;
      last_ = block;
      in_last_ = 0;
    }
    last_->elements[in_last_++] = std::move(element);
  }

  [[nodiscard]] Iterator begin() const noexcept { return {first_, 0}; }
  [[nodiscard]] Iterator end() const noexcept {
    return in_last_ == block_size ? Iterator(nullptr, 0) : Iterator(last_, in_last_);
  }

 private:
  Block *first_ = nullptr, *last_ = nullptr;
  std::size_t in_last_ = block_size;  ///< elements of the last block; block_size if there is none
};

}  // namespace lockstep
