#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

/// XXH3, 64 bits, of `bytes` bytes at `data`.
[[nodiscard]] std::uint64_t hash64(const void* data, std::size_t bytes) noexcept;

/// XXH3, 64 bits, fed piece by piece: the same value as hash64 of the pieces joined.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(const void* data, std::size_t bytes) noexcept;
  [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Sixteen lower-case hexadecimal digits.
[[nodiscard]] std::string to_hex(std::uint64_t value);

}  // namespace lockstep
