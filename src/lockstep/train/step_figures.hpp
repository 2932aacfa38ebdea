#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <lockstep/train/report/device_spans.hpp>

namespace lockstep::train {

/// Figures of a parameter update on the device. Undefined: not measured.
struct UpdateFigures {
  Tensor grad_norm;   ///< f64 [1], before clipping
  Tensor found_inf;   ///< f32 [1]; not 0: the update was skipped
  Tensor loss_scale;  ///< f32 [], for the next step
};

/// Copies the losses of this rank's parts of a step, and figures of its update, to the host. Those
/// of a device go to pinned memory behind the step and may be taken later, so that the host never
/// waits for a step it has just launched. Allocates nothing after two steps.
class StepFigures {
 public:
  explicit StepFigures(Device device);

  /// Adds the mean loss of `rows` samples, one element, to the step that end_step() will end.
  void add(const Tensor& mean, std::int64_t rows);
  /// The mean loss of all ranks' samples, f64 [1], of which this rank counts `rows`. Replaces the
  /// sum of the values given to add().
  void set_whole(const Tensor& mean, std::int64_t rows);
  void set_update(const UpdateFigures& update);
  /// The device spans of the step that end_step() will end; null on the host, and without a trace.
  /// The first call waits for the device. take() traces them.
  [[nodiscard]] DeviceSpans* spans();
  void end_step(std::int64_t step);

  /// Steps ended but not taken: at most two.
  [[nodiscard]] std::int64_t waiting() const noexcept { return waiting_; }

  /// Figures of one step.
  struct Taken {
    std::int64_t step = 0;
    double sum = 0;                    ///< over the samples
    std::optional<double> not_finite;  ///< a mean that is not finite
    double grad_norm = -1;             ///< -1: not measured
    bool is_left_out = false;          ///< the update was skipped
    double loss_scale = 1;             ///< of the next step
  };
  /// Takes the oldest one. Waits for the device.
  [[nodiscard]] Taken take();

 private:
  static constexpr std::int64_t most_waiting = 2;  // the newest, and the one before

  /// A tensor of the device on its way to pinned memory. The memory is kept for the next one: freed
  /// memory becomes available only after the device has done all its queued work.
  struct Figure {
    Tensor here;  // valid once `arrived` has completed
    bool is_set = false;

    void set(const Tensor& there);
    [[nodiscard]] double value() const { return here.item(); }
  };
  struct Part {
    Figure mean;
    std::int64_t rows = 0;
  };
  /// A rank without samples contributes 0 for its undefined mean.
  [[nodiscard]] static double weighted(const Part& part);
  struct Step {
    explicit Step(Device device) : spans(device), arrived(device, true) {}
    std::int64_t number = 0;
    std::vector<Part> parts;  // only the first `used` count
    std::size_t used = 0;
    Part whole;
    Figure grad_norm, found_inf, loss_scale;
    DeviceSpans spans;
    DeviceEvent arrived;
  };

  Device device_;
  std::deque<Step> ring_;
  std::size_t next_ = 0;  // position in the ring for add()
  std::int64_t waiting_ = 0;
  std::optional<DeviceEvent> first_;    // start of the trace
  std::optional<DeviceMoment> latest_;  // a device event with known time
};

}  // namespace lockstep::train
