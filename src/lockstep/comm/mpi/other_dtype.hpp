#pragma once
#include <chrono>
#include <optional>
#include <string>

#include <lockstep/comm/mpi/calls.hpp>

namespace lockstep {

/// Whether a message that is waited for has come in another dtype. The tag keeps MPI messages of
/// different dtypes apart, so a message is received correctly or not at all; this class polls from
/// time to time for a message that waits under another dtype's tag. A message found there may also
/// follow the awaited one, which is still being transferred: so the receive is cancelled first,
/// which MPI allows only if no message has been matched with it. A cancelled receive fails: it is
/// never posted again, because MPI would order it after receives that were started later.
class OtherDtype {
 public:
  // These throw OperationFailure if MPI fails.
  /// To be called whenever `receive`, of `operation`, was not over.
  void look(MpiReceive& receive, const Operation& operation, const MpiPlace& place,
            PendingReceives& pending);
  /// `receive` has been taken back by look(), not by the user: take() comes next.
  [[nodiscard]] static bool took_back(const MpiReceive& receive) noexcept {
    return receive.doubted && receive.cancelled && !receive.giving_up;
  }
  /// Receives the other message into scratch memory, so that its sender completes. If it is gone, a
  /// receive that was started later has it, so that the sender's order is another one all the same.
  /// From now on has_come().
  void take(MpiReceive& receive, const Operation& operation, const MpiPlace& place,
            PendingReceives& pending);
  [[nodiscard]] bool has_come() const noexcept { return came_.has_value(); }
  [[nodiscard]] std::string finding(const Operation& operation, const MpiReceive& receive,
                                    const MpiRanks& ranks) const;

 private:
  /// A message that waits.
  struct Waiting {
    DType dtype;
    int source;
    bool operator==(const Waiting&) const = default;
  };
  [[nodiscard]] static std::optional<Waiting> waiting(const MpiReceive& receive,
                                                      const Operation& operation,
                                                      const MpiPlace& place);

  std::uint32_t looks_ = 0;
  std::chrono::steady_clock::time_point next_{};
  std::optional<Waiting> seen_;
  std::optional<DType> came_;
};

}  // namespace lockstep
