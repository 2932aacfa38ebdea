#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/comm/work.hpp>
#include <lockstep/parallel/pipeline/microbatch.hpp>

namespace lockstep {

/// This rank's end of the messages from one stage to a neighbour on another rank: activations, or
/// their gradients. All messages have one dtype, and one shape for each row of a micro-batch; both
/// ends know it after the first message. Two receives are posted ahead, so that a message travels
/// while this rank computes.
class StageMessages {
 public:
  /// `what` labels the messages: "stage 1 fwd, micro-batch". `tells_shape`: the sender tells the
  /// receiver the shape, ahead of the first message; else the receiver learn()s it.
  StageMessages(ProcessGroup& group, int peer, int tag, const char* what, bool tells_shape)
      : group_(group), peer_(peer), tag_(tag), what_(what), tells_shape_(tells_shape) {}

  // Of the sender:

  /// Starts sending `t`, of which each of the micro-batch's rows has an equal part. Throws
  /// ShapeError for another shape or dtype than before.
  void send(const Tensor& t, const Microbatch& microbatch);
  /// Waits until all messages have left: their tensors are free.
  void finish();

  // Of the receiver:

  /// A step begins, in which the sender sends these micro-batches, in this order.
  void begin(std::vector<Microbatch> order, Device device);
  /// The messages are like `t`, of this micro-batch.
  void learn(const Tensor& t, const Microbatch& microbatch);
  /// Waits for the micro-batch's message. Errors of the group name stage and micro-batch, as
  /// finish()'s do.
  [[nodiscard]] Tensor receive(const Microbatch& microbatch);

  /// Seconds in which this rank has waited for messages.
  [[nodiscard]] double waited_s() const noexcept { return waited_s_; }

  /// Messages of the next step may have another shape. Both ends.
  void forget_shape() noexcept { format_.reset(); }

 private:
  struct Format {
    DType dtype;
    Shape row;  ///< with the leading extent of one row of the micro-batch
    bool operator==(const Format&) const = default;
    [[nodiscard]] Shape of(const Microbatch& microbatch) const {
      return row.with_leading(row[0] * microbatch.rows());
    }
  };
  struct Message {
    int microbatch;
    Tensor tensor;  ///< of a receive
    Work work;
  };
  [[nodiscard]] Format format_of(const Tensor& t, const Microbatch& microbatch) const;
  void tell_shape(int microbatch);
  void hear_shape();
  void post();
  void post_ahead();
  /// Adds the message's name to a failure of the group.
  void wait(Message& message);

  ProcessGroup& group_;
  int peer_, tag_;
  const char* what_;
  bool tells_shape_;
  std::optional<Format> format_;
  std::vector<Message> sends_;
  std::vector<Microbatch> order_;
  std::size_t posted_ = 0;  ///< of order_
  std::deque<Message> pending_;
  Device device_;
  double waited_s_ = 0.0;
};

}  // namespace lockstep
