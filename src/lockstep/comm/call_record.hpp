#pragma once
#include <cstdint>
#include <string>

#include <lockstep/comm/operation.hpp>

namespace lockstep {

/// The record of a call that is kept and shown to other processes: plain bytes, no pointers.
struct CallRecord {
  Operation::Kind kind = Operation::Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;
  bool has_tensor = false;
  DeviceType device_type = DeviceType::host;  ///< of its tensors
  std::int16_t device_index = 0;
  std::int32_t root = 0;  ///< or the peer of a message
  std::int32_t tag = 0;
  std::uint64_t sequence = 0;
  Shape shape;  ///< of the rank's input, or of its output if it has no input
};
[[nodiscard]] CallRecord record_of(const Operation& operation) noexcept;

/// "all_reduce #17 of f32[21840]".
[[nodiscard]] std::string describe(const CallRecord& call);
/// The same with reduction and root: "all_reduce(sum) #17 of f32[21840]".
[[nodiscard]] std::string describe_fully(const CallRecord& call);

/// The fields in which two calls with one number differ: "dtype and shape".
[[nodiscard]] std::string differences(const CallRecord& a, const CallRecord& b);

/// "rank 1 called all_reduce(max) #3 of f32[8], another reduction".
[[nodiscard]] std::string called_something_else(int rank, const CallRecord& mine,
                                                const CallRecord& theirs);

[[nodiscard]] inline std::string describe(const Operation& operation) {
  return describe(record_of(operation));
}
[[nodiscard]] inline std::string describe_fully(const Operation& operation) {
  return describe_fully(record_of(operation));
}

}  // namespace lockstep
