#pragma once
#include <exception>
#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep::rpc {

/// A call reached its worker and failed there: the function threw, or it could not be called.
class RemoteError : public Error {
 public:
  /// The worker and the function that failed.
  struct Where {
    int rank = -1;
    std::string worker;
    std::string function;
  };
  RemoteError(Where where, std::string text);

  [[nodiscard]] int rank() const noexcept { return where_.rank; }
  [[nodiscard]] const std::string& worker() const noexcept { return where_.worker; }
  [[nodiscard]] const std::string& function() const noexcept { return where_.function; }
  /// The remote error's message alone.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  Where where_;
  std::string text_;
};

/// Bytes that are no message of ours, or not of the types that are asked for: refused.
class MalformedMessage : public Error {
 public:
  using Error::Error;
};

/// The exception's message; a sentence about it if it has none.
[[nodiscard]] std::string text_of(const std::exception_ptr& failure) noexcept;

}  // namespace lockstep::rpc
