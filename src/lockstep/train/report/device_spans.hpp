#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>

#include <lockstep/tensor/stream.hpp>

namespace lockstep::train {

/// A completed event of a device, and its time by trace_now().
struct DeviceMoment {
  const DeviceEvent* event = nullptr;
  std::int64_t ns = 0;

  /// The time of `later`, which has also completed.
  [[nodiscard]] std::int64_t ns_of(const DeviceEvent& later) const;
};

/// Times of a device's work on the phases of one step, for the trace: marks in its stream, read
/// after completion. Allocates nothing after a step with as many phases.
class DeviceSpans {
 public:
  explicit DeviceSpans(Device device) : device_(device) {}

  /// While it lives, work that this thread gives to the device's current stream is one span. `name`
  /// is a literal. Does nothing if `spans` is null.
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

  /// Traces the spans, all completed, as part of that step, and starts over.
  void tell(std::int64_t step, const DeviceMoment& earlier);

 private:
  struct Marks {
    explicit Marks(Device device) : begin(device, true), end(device, true) {}
    const char* name = "";
    DeviceEvent begin, end;
  };

  Device device_;
  std::deque<Marks> marks_;  // kept for reuse
  std::size_t used_ = 0;
};

}  // namespace lockstep::train
