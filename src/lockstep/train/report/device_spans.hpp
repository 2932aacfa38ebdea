#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>

#include <lockstep/tensor/stream.hpp>

namespace lockstep::train {

/// An event of a device that is over, and when that was, as trace_now().
struct DeviceMoment {
  const DeviceEvent* event = nullptr;
  std::int64_t ns = 0;

  /// When `later` was, which is over too.
  [[nodiscard]] std::int64_t ns_of(const DeviceEvent& later) const;
};

/// When a device worked on the phases of one step, for the trace: marks in its stream, which are
/// read when they are over. Allocates nothing once a step of as many phases is told.
class DeviceSpans {
 public:
  explicit DeviceSpans(Device device) : device_(device) {}

  /// While it lives, what this thread gives to the device's current stream is one span. `name` is a
  /// literal. Nothing where `spans` is null.
  class Span {
   public:
    Span(DeviceSpans* spans, const char* name);
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    DeviceSpans* spans_;
    std::size_t mark_ = 0;
  };

  /// Traces the spans, all of which are over, as of that step, and begins anew.
  void tell(std::int64_t step, const DeviceMoment& earlier);

 private:
  struct Marks {
    explicit Marks(Device device) : begin(device), end(device) {}
    const char* name = "";
    DeviceEvent begin, end;
  };

  Device device_;
  std::deque<Marks> marks_;  // kept and used again
  std::size_t used_ = 0;
};

}  // namespace lockstep::train
