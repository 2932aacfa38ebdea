#pragma once
#include <lockstep/tensor/stream.hpp>

namespace lockstep {

/// A stream of a device that is nobody else's, neither the first one nor one of the pool. Its end
/// waits for nothing: the next owner gets the same stream, with the memory that was allocated for
/// it.
class OwnStream {
 public:
  explicit OwnStream(Device device);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  [[nodiscard]] const Stream& get() const noexcept { return stream_; }

 private:
  Stream stream_;
};

}  // namespace lockstep
