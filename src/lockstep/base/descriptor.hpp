#pragma once
#include <cstdint>
#include <utility>

namespace lockstep {

/// Owns a file descriptor and closes it in its destructor. -1, the error value of system calls,
/// owns none.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  [[nodiscard]] int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_ = -1;
};

/// posix_fallocate, which a signal may interrupt and then has done nothing: in pieces, and again.
/// Returns an errno value, or 0.
[[nodiscard]] int allocate_file(const Descriptor& file, std::int64_t begin, std::int64_t bytes);

}  // namespace lockstep
