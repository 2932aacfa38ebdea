#pragma once
// Where the values of each channel of x[N, C, P] are, n side by side at a time. Private to the
// kernels' .cpp files.
#include <algorithm>
#include <initializer_list>

#include <lockstep/tensor/kernels/channel_parts.hpp>
#include <lockstep/tensor/kernels/device_loops.hpp>
#include <lockstep/tensor/kernels/divisor.hpp>

namespace lockstep::detail {

/// Calls f.template operator()<n>() with the n of packs: 4 where planes and addresses allow it.
template <class F>
void with_packs(const ChannelParts& parts, std::initializer_list<const Tensor*> tensors,
                const F& f) {
  const bool fits = parts.positions % 4 == 0 &&
                    std::all_of(tensors.begin(), tensors.end(),
                                [](const Tensor* t) { return is_aligned_to_packs(*t, 4); });
  fits ? f.template operator()<4>() : f.template operator()<1>();
}

/// The channel of each pack of x.
template <int n>
class ChannelOfPack {
 public:
  explicit ChannelOfPack(const ChannelParts& parts)
      : positions_(parts.positions / n, parts.samples * parts.columns() / n),
        channels_(parts.channels, parts.samples * parts.channels) {}

  [[nodiscard]] KOKKOS_FUNCTION std::int64_t operator()(std::int64_t pack) const {
    return channels_.remainder(positions_.quotient(pack));
  }

 private:
  Divisor positions_, channels_;
};

/// The samples of each part, where a thread sums them at one position.
class ColumnsOfParts {
 public:
  explicit ColumnsOfParts(const ChannelParts& parts)
      : samples_(parts.samples),
        length_(parts.length),
        columns_(parts.columns()),
        blocks_(columns_, parts.count()) {}

  struct Part {
    std::int64_t column, begin, end;
  };

  [[nodiscard]] KOKKOS_FUNCTION Part operator[](std::int64_t i) const {
    const std::int64_t block = blocks_.quotient(i), begin = block * length_;
    return {i - block * columns_, begin, begin + length_ < samples_ ? begin + length_ : samples_};
  }
  /// Place in x.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t place(const Part& part, std::int64_t sample) const {
    return sample * columns_ + part.column;
  }

 private:
  std::int64_t samples_, length_, columns_;
  Divisor blocks_;
};

/// The packs of each part, where a team sums it.
template <int n>
class PacksOfParts {
 public:
  static constexpr int loads = n == 1 ? 4 : 2;  ///< of a thread at once

  explicit PacksOfParts(const ChannelParts& parts)
      : blocks_(parts.blocks),
        length_(parts.length / n),
        plane_(parts.positions / n),
        all_(parts.samples * plane_),
        skipped_((parts.channels - 1) * plane_),
        samples_(plane_, all_) {}

  struct Part {
    std::int64_t channel, begin, end;  ///< packs of the channel

    [[nodiscard]] KOKKOS_FUNCTION std::int64_t packs() const { return end - begin; }
    /// Packs that one call of a loop goes through, `strip()` apart, so that threads side by side
    /// read side by side.
    [[nodiscard]] KOKKOS_FUNCTION std::int64_t strip() const {
      return (packs() + loads - 1) / loads;
    }
  };

  [[nodiscard]] KOKKOS_FUNCTION Part operator[](std::int64_t r) const {
    const std::int64_t c = r / blocks_, begin = (r - c * blocks_) * length_;
    return {c, begin, begin + length_ < all_ ? begin + length_ : all_};
  }
  /// Place in x of the channel's pack k.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t place(const Part& part, std::int64_t k) const {
    return k + samples_.quotient(k) * skipped_ + part.channel * plane_;
  }

 private:
  std::int64_t blocks_, length_, plane_, all_, skipped_;
  Divisor samples_;
};

}  // namespace lockstep::detail
