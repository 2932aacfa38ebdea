#pragma once
#include <cstdint>
#include <limits>
#include <string>

#include <lockstep/tensor/tensor.hpp>

// Indices, targets and numbers that come with the data may be wrong. On the host that is seen
// before they are used. A device sees it in its own time, and the host when it waits anyway.

namespace lockstep {

/// The valid indices: those in [0, count), and `ignored`.
struct IndexCheck {
  /// Of a wrong one, `value`, which is number `i`.
  using Sentence = std::string (*)(const IndexCheck& check, std::int64_t i, std::int64_t value);

  std::int64_t count = 0, ignored = std::numeric_limits<std::int64_t>::min();
  Sentence sentence = nullptr;
  // Further parts of the error message.
  const char* operation = "";
  Shape indices, table;
  std::int64_t place = 0;  ///< a dimension of the table, or the number of the first index

  friend bool operator==(const IndexCheck&, const IndexCheck&) = default;
};

/// i32 indices as i64, which kernels take; others as they are.
[[nodiscard]] inline Tensor as_indices(const Tensor& index) {
  return index.dtype() == DType::i32 ? index.to(DType::i64) : index;
}

/// `index` (i64) after the check; all are valid. On the host that is `index` itself; throws
/// InputError with the sentence otherwise. On a device it is a copy, enqueued like a kernel, in
/// which the valid index `instead` replaces invalid ones; the first invalid one is kept for
/// expect_right_indices.
[[nodiscard]] Tensor right_indices(const IndexCheck& check, const Tensor& index,
                                   std::int64_t instead);

/// The valid numbers: those in [least, most], and NaN.
struct RangeCheck {
  /// Of a wrong one, `value`, which is number `i`.
  using Sentence = std::string (*)(std::int64_t i, double value);

  double least = 0.0, most = std::numeric_limits<double>::infinity();
  Sentence sentence = nullptr;

  friend bool operator==(const RangeCheck&, const RangeCheck&) = default;
};

/// Of x, f32 or f64, all numbers are right. On the host throws InputError with the sentence
/// otherwise. On a device the first wrong one is kept for expect_right_indices.
void expect_in_range(const RangeCheck& check, const Tensor& x);

/// Throws InputError, with the host's sentence, if a wrong index or number was found on the device
/// since the last call. Waits for this thread's current stream, unless nothing was checked since.
/// For code that reads results of a device without Tensor::item, which calls this.
void expect_right_indices(Device device);

}  // namespace lockstep
