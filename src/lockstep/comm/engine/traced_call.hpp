#pragma once
#include <cstdint>
#include <string>

#include <lockstep/comm/operation.hpp>

namespace lockstep {

/// What a trace shows of an operation: the time from its call until this rank saw it over, and that
/// part of it in which not all ranks had entered.
class TracedCall {
 public:
  /// Does not trace an operation that was called before tracing began. `group`: its name.
  void entered(const Operation& operation, const std::string& group) noexcept;
  void agreed() noexcept;
  void over(const Operation& operation) const noexcept;

 private:
  std::int64_t entered_ns_ = 0;  // 0: not traced
  std::int64_t agreed_ns_ = 0;
  const char* label_ = nullptr;
  const char* detail_ = nullptr;
  std::int64_t number_ = -1;
  std::uint64_t flight_ = 0;
  int rank_ = 0;
};

}  // namespace lockstep
