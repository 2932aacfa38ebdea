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

/// What the device knows of an update of the parameters. Undefined: not measured.
struct UpdateFigures {
  Tensor grad_norm;   ///< f64 [1], before clipping
  Tensor found_inf;   ///< f32 [1]; not 0: the update was left out
  Tensor loss_scale;  ///< f32 [], of the next step
};

/// The losses of this rank's parts of a step, and what its update came to, on their way to the
/// host. Those of a device are copied to pinned memory behind the step, and may be taken later, so
/// that the host waits for no step that it has just given to the device. Allocates nothing once two
/// steps are taken.
class StepFigures {
 public:
  explicit StepFigures(Device device);

  /// The mean loss of `rows` samples, one element, of the step that end_step() will end.
  void add(const Tensor& mean, std::int64_t rows);
  /// The mean loss of all ranks' samples, f64 [1], of which this rank counts `rows`: in place of
  /// the sum of what add() was given.
  void set_whole(const Tensor& mean, std::int64_t rows);
  void set_update(const UpdateFigures& update);
  /// Those of the step that end_step() will end; null on the host, and where nobody traces. The
  /// first call waits for the device. take() traces them.
  [[nodiscard]] DeviceSpans* spans();
  void end_step(std::int64_t step);

  /// Steps that are ended and not taken: two at most.
  [[nodiscard]] std::int64_t waiting() const noexcept { return waiting_; }

  /// Figures of one step.
  struct Taken {
    std::int64_t step = 0;
    double sum = 0;                    ///< over the samples
    std::optional<double> not_finite;  ///< a mean that is not
    double grad_norm = -1;             ///< -1: not measured
    bool is_left_out = false;          ///< the update
    double loss_scale = 1;             ///< of the next step
  };
  /// Of the oldest one. Waits for the device.
  [[nodiscard]] Taken take();

 private:
  static constexpr std::int64_t most_waiting = 2;  // the newest, and the one before

  /// A tensor of the device on its way to pinned memory, which is kept for the next one: what is
  /// freed is not there again before the device has done all that it had been given.
  struct Figure {
    Tensor here;  // to be read when `arrived` is over
    bool is_set = false;

    void set(const Tensor& there);
    [[nodiscard]] double value() const { return here.item(); }
  };
  struct Part {
    Figure mean;
    std::int64_t rows = 0;
  };
  /// A rank without samples of a mean that is none counts 0.
  [[nodiscard]] static double weighted(const Part& part);
  struct Step {
    explicit Step(Device device) : spans(device), arrived(device) {}
    std::int64_t number = 0;
    std::vector<Part> parts;  // the first `used`
    std::size_t used = 0;
    Part whole;
    Figure grad_norm, found_inf, loss_scale;
    DeviceSpans spans;
    DeviceEvent arrived;
  };

  Device device_;
  std::deque<Step> ring_;
  std::size_t next_ = 0;  // of the ring: where add() goes
  std::int64_t waiting_ = 0;
  std::optional<DeviceEvent> first_;    // since it is traced
  std::optional<DeviceMoment> latest_;  // a moment of the device that is known
};

}  // namespace lockstep::train
