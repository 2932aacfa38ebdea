#pragma once
#include <cstddef>
#include <functional>
#include <memory>

#include <lockstep/tensor/device.hpp>

namespace lockstep {

/// Work of one device that is recorded once and replayed with one launch: torch.cuda.CUDAGraph.
/// A replay runs the recorded kernels and copies on the same addresses, with the same bits. What
/// the host computes is not repeated.
///
///   DeviceGraph graph(device);
///   Tensor x = Tensor::empty({64, 784}, DType::f32, device);  // the recorded work reads it
///   const auto step = [&] { loss = train_on(x); };
///   for (int i = 0; i < 3; ++i) { x.copy_from(next()); graph.warm_up(step); }
///   graph.capture(step);  // computes nothing
///   for (...) { x.copy_from(next()); graph.replay(); }  // `loss` is that replay's
///
/// Memory that the work allocates belongs to the graph: a pool of its own, which other work does
/// not get before the graph is destroyed. Tensors from outside that the work uses must live as
/// long. A captured optim::Optimizer::step counts and reads its learning rate in each replay;
/// optimizer and graph are used together, and the optimizer lives longer.
/// Replays belong on the stream that was current during warm_up(), or on one that waits for it.
/// One thread at a time.
class DeviceGraph {
 public:
  /// Throws InputError for the host.
  explicit DeviceGraph(Device device);
  /// Waits for the last replay.
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  [[nodiscard]] Device device() const noexcept;

  /// Runs the work, as a plain call does, on the graph's own stream and in its pool: after the work
  /// of the current stream, which waits for it. Two calls or more leave all the memory in the pool
  /// that a capture takes. Forgets what was captured before.
  void warm_up(const std::function<void()>& work);

  /// Records the work of the device that `work()` enqueues on this thread's current stream, and
  /// runs none of it. Throws what `work` throws. That is DeviceError if it waits for the device
  /// (Tensor::item()) or copies memory of the host that is not pinned, and Error if it needs more
  /// memory than warm_up() left. The graph is then as before the call; what `work` changed on the
  /// host stays changed.
  void capture(const std::function<void()>& work);
  [[nodiscard]] bool is_captured() const noexcept;

  /// Enqueues the recorded work behind this thread's current stream. The host does not wait. Throws
  /// Error if nothing is captured.
  void replay();

  // For code whose captured work depends on numbers of the host.

  /// The graph that this thread captures; null if there is none.
  [[nodiscard]] static DeviceGraph* capturing() noexcept;

  /// Memory of the device, and the host's copy of it: each replay begins with a copy to the device.
  struct Numbers {
    void* device;  ///< for kernels, aligned to 64 bytes
    void* host;
  };
  /// Room of a capture for values that the host changes between replays. At most 64 KiB in all:
  /// throws Error beyond.
  [[nodiscard]] Numbers numbers(std::size_t bytes);
  /// f() at the beginning of each replay, before numbers() are copied, in the order of the calls.
  void before_replay(std::function<void()> f);
  /// f() once a replay is enqueued.
  void after_replay(std::function<void()> f);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
