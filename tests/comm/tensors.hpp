#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/comm/process_group.hpp>

// Fills tensors for the tests, on the backend's device, and reads them back.

namespace lockstep::test {

inline constexpr DType every_dtype[] = {DType::f32, DType::f64, DType::bf16, DType::f16,
                                        DType::i32, DType::i64, DType::u8,   DType::boolean};

inline constexpr ReduceOp every_op[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::product,
                                        ReduceOp::min, ReduceOp::max, ReduceOp::band,
                                        ReduceOp::bor, ReduceOp::bxor};

using Counts = std::vector<std::int64_t>;

/// Which memory a claim's tensors are in.
enum class Place : std::uint8_t {
  own,     ///< the rank's own
  shared,  ///< ProcessGroup::shared_buffer
  mixed,   ///< the same, but on the last rank its own
};
inline constexpr Place every_place[] = {Place::own, Place::shared, Place::mixed};
[[nodiscard]] const char* name_of(Place place);

/// The memory of a backend, if it is not the host's: Place::own then means this.
struct DeviceMemory {
  std::function<Tensor(int rank, std::int64_t bytes)> make;
  std::function<void(const Tensor& t, void* to)> read;
  std::function<void(const Tensor& t, const void* from)> write;
};
/// A simulated device of each rank's own.
[[nodiscard]] DeviceMemory simulated_memory();
/// LOCKSTEP_TEST_DEVICE=sim: simulated_memory().
[[nodiscard]] DeviceMemory asked_for_memory();
inline DeviceMemory device_memory = asked_for_memory();

/// A simulated device: among ranks that are threads each has another one.
[[nodiscard]] inline Device simulated_device(int rank) { return {DeviceType::sim, rank % 8}; }

/// Memory for tensors, with guard bytes between them: writes outside a tensor's own bytes are
/// detected.
class Arena {
 public:
  /// Collective.
  Arena(ProcessGroup& group, Place place, std::int64_t bytes = 1 << 16);

  /// A tensor whose bytes are all guard bytes. Throws std::length_error when the arena is full.
  [[nodiscard]] Tensor take(const Shape& shape, DType dtype);
  /// The same, holding `values`.
  [[nodiscard]] Tensor take(const Shape& shape, DType dtype, const std::vector<double>& values);
  /// True while the bytes before, between and behind the tensors are unchanged.
  [[nodiscard]] bool guards_hold() const;
  /// True while its tensors are, too.
  [[nodiscard]] bool is_untouched() const;
  /// Releases all tensors.
  void reset();

 private:
  Tensor bytes_;
  std::vector<std::uint8_t> taken_;  // by byte: 1 in a tensor
  std::int64_t end_ = 0;
};

/// Elements of any dtype from and as doubles; bool as 0 and 1.
void set_values(const Tensor& t, const std::vector<double>& values);
[[nodiscard]] std::vector<double> values_of(const Tensor& t);
[[nodiscard]] Tensor tensor_of(const Shape& shape, DType dtype, const std::vector<double>& values);

/// The bytes of a tensor of any dtype.
[[nodiscard]] Tensor as_bytes(const Tensor& t);
[[nodiscard]] std::vector<std::uint8_t> bytes_of(const Tensor& t);

/// `count` values that tell rank, salt and element apart, exact in `dtype`.
[[nodiscard]] std::vector<double> values(DType dtype, int rank, std::int64_t count, int salt = 0);
/// values() of every rank, one after the other: `count` elements each.
[[nodiscard]] std::vector<double> of_all_ranks(DType dtype, int size, std::int64_t count);
/// counts[r] rows of `row` elements from rank r.
[[nodiscard]] std::vector<double> of_all_ranks(DType dtype, const Counts& counts, std::int64_t row);

/// Rows of each rank: another number on every one, none on rank 1.
[[nodiscard]] Counts uneven(int size);
[[nodiscard]] std::int64_t total(const Counts& counts);

/// Runs `claim` in every kind of memory, and looks at the guard bytes afterwards.
void in_every_place(const std::function<void(ProcessGroup&, Arena&)>& claim, ProcessGroup& group,
                    std::int64_t arena_bytes = 1 << 16);

}  // namespace lockstep::test
