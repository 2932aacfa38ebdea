#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/storage.hpp>

namespace lockstep {

/// Some tensors one after another in flat memory, which is cut into one run per rank, all of the
/// same length. Each tensor begins at a multiple of an alignment, and so does each run; the
/// elements between and after the tensors are padding. A pure function of its arguments, so all
/// ranks have the same layout. In units of elements.
class ShardLayout {
 public:
  /// The part of a tensor that lies in a rank's run.
  struct Piece {
    std::int64_t begin = 0;  ///< of the flattened tensor
    std::int64_t count = 0;  ///< 0: the rank has nothing of it
    std::int64_t place = 0;  ///< in the rank's run
  };

  /// The alignment at which kernels may run over padding (Storage::mark_padded).
  [[nodiscard]] static std::int64_t alignment_of(DType dtype) noexcept {
    return static_cast<std::int64_t>(Storage::padding_bytes / size_of(dtype));
  }
  /// Of tensors with `counts` elements, over `ranks` ranks.
  ShardLayout(std::span<const std::int64_t> counts, int ranks, std::int64_t alignment);

  [[nodiscard]] std::int64_t elements() const noexcept { return run_ * ranks_; }
  [[nodiscard]] std::int64_t elements_of_run() const noexcept { return run_; }
  /// Where a tensor begins in the flat memory.
  [[nodiscard]] std::int64_t place(std::size_t tensor) const { return places_[tensor]; }
  [[nodiscard]] Piece piece(std::size_t tensor, int rank) const;

  /// [first, last) of the flat memory.
  struct Gap {
    std::int64_t first, last;
  };
  /// All padding, in order.
  [[nodiscard]] const std::vector<Gap>& gaps() const noexcept { return gaps_; }

 private:
  std::vector<std::int64_t> counts_, places_;
  std::vector<Gap> gaps_;
  int ranks_;
  std::int64_t run_ = 0;
};

}  // namespace lockstep
