#include <lockstep/train/report/device_spans.hpp>

#include <cmath>

#include <lockstep/base/trace.hpp>
#include <lockstep/train/report/chrome_trace.hpp>

namespace lockstep::train {

std::int64_t DeviceMoment::ns_of(const DeviceEvent& later) const {
  return ns + std::llround(later.milliseconds_since(*event) * 1e6);
}

DeviceSpans::Span::Span(DeviceSpans* spans, const char* name) : spans_(spans) {
  if (!spans_) return;
  mark_ = spans_->used_++;
  if (mark_ == spans_->marks_.size()) spans_->marks_.emplace_back(spans_->device_);
  Marks& marks = spans_->marks_[mark_];
  marks.name = name;
  marks.begin.record(current_stream(spans_->device_));
}

DeviceSpans::Span::~Span() {
  if (spans_) spans_->marks_[mark_].end.record(current_stream(spans_->device_));
}

void DeviceSpans::tell(std::int64_t step, const DeviceMoment& earlier) {
  if (used_ == 0) return;
  const char* const device = trace_name(to_string(device_));
  for (std::size_t i = 0; i < used_; ++i) {
    const Marks& marks = marks_[i];
    trace({.start_ns = earlier.ns_of(marks.begin),
           .end_ns = earlier.ns_of(marks.end),
           .category = device_category,
           .name = marks.name,
           .detail = device,
           .number = step});
  }
  used_ = 0;
}

}  // namespace lockstep::train
