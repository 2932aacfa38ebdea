#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::train {

/// The losses of this rank's parts of a step, on their way to the host. Those of a device are
/// copied to pinned memory behind the step, and may be taken later, so that the host waits for no
/// step that it has just given to the device. Allocates nothing once two steps are taken.
class StepLosses {
 public:
  explicit StepLosses(Device device);

  /// The mean loss of `rows` samples, one element, of the step that end_step() will end.
  void add(const Tensor& mean, std::int64_t rows);
  void end_step(std::int64_t step);

  /// Steps that are ended and not taken: two at most.
  [[nodiscard]] std::int64_t waiting() const noexcept { return waiting_; }

  struct Taken {
    std::int64_t step = 0;
    double sum = 0;                    ///< over the samples
    std::optional<double> not_finite;  ///< a mean that is not
  };
  /// Of the oldest one. Waits for the device.
  [[nodiscard]] Taken take();

 private:
  static constexpr std::int64_t most_waiting = 2;  // the newest, and the one before

  struct Part {
    Tensor mean;  // on the host; to be read when `arrived` is over
    std::int64_t rows = 0;
  };
  struct Step {
    explicit Step(Device device) : arrived(device) {}
    std::int64_t number = 0;
    std::vector<Part> parts;
    DeviceEvent arrived;
  };

  Device device_;
  std::deque<Step> ring_;
  std::size_t next_ = 0;  // of the ring: where add() goes
  std::int64_t waiting_ = 0;
};

}  // namespace lockstep::train
