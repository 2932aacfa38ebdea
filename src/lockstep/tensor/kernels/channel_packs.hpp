#pragma once
// Where the values of each channel of x[N, C, P] are, n side by side at a time. Private to the
// kernels' .cpp files.
#include <algorithm>
#include <initializer_list>

#include <lockstep/tensor/kernels/channel_parts.hpp>
#include <lockstep/tensor/kernels/device_loops.hpp>
#include <lockstep/tensor/kernels/divisor.hpp>

namespace lockstep::detail {

/// The values of a pack are of one channel, or of neighbouring ones.
enum class PackOf : std::uint8_t { positions, channels };

constexpr int channels_of_a_pack(int n, PackOf of) { return of == PackOf::channels ? n : 1; }

/// Calls f.template operator()<n, of>() and returns true if extents and addresses allow packs of n.
template <int n, class F>
bool with_packs_of(const ChannelParts& parts, std::initializer_list<const Tensor*> tensors,
                   const F& f) {
  const bool is_aligned = std::all_of(tensors.begin(), tensors.end(),
                                      [](const Tensor* t) { return is_aligned_to_packs(*t, n); });
  if (is_aligned && parts.channels_are_last() && parts.channels % n == 0) {
    f.template operator()<n, PackOf::channels>();
  } else if (is_aligned && parts.positions % n == 0) {
    f.template operator()<n, PackOf::positions>();
  } else {
    return false;
  }
  return true;
}

/// The same with packs of 4, or else of 1.
template <class F>
void with_packs(const ChannelParts& parts, std::initializer_list<const Tensor*> tensors,
                const F& f) {
  if (!with_packs_of<4>(parts, tensors, f)) f.template operator()<1, PackOf::positions>();
}

/// The same with packs of 16 bytes of Ts where that is possible: for kernels that keep few numbers
/// for each element.
template <class T, class F>
void with_wide_packs(const ChannelParts& parts, std::initializer_list<const Tensor*> tensors,
                     const F& f) {
  if constexpr (sizeof(T) == 2) {
    if (with_packs_of<8>(parts, tensors, f)) return;
  }
  with_packs(parts, tensors, f);
}

/// The channels of each pack of x.
template <int n, PackOf of>
class ChannelsOfPack {
 public:
  explicit ChannelsOfPack(const ChannelParts& parts)
      : positions_(parts.positions / n, parts.samples * parts.columns() / n),
        channels_(of == PackOf::channels ? parts.channels / n : parts.channels,
                  parts.samples * parts.channels) {}

  class Channels {
   public:
    KOKKOS_FUNCTION explicit Channels(std::int64_t first) : first_(first) {}
    /// The number of each value's channel.
    template <class T>
    [[nodiscard]] KOKKOS_FUNCTION Pack<T, n> numbers(const ByColumn<T>& by_channel) const {
      if constexpr (of == PackOf::channels) {
        return by_channel.template pack<n>(first_);
      } else {
        Pack<T, n> result;
        for (int e = 0; e < n; ++e) result.values[e] = by_channel.data[first_];
        return result;
      }
    }

   private:
    std::int64_t first_;
  };
  [[nodiscard]] KOKKOS_FUNCTION Channels operator()(std::int64_t pack) const {
    if constexpr (of == PackOf::channels) return Channels(channels_.remainder(pack) * n);
    return Channels(channels_.remainder(positions_.quotient(pack)));
  }

 private:
  Divisor positions_, channels_;
};

/// The samples of each part, where a thread sums them at one position, of n channels side by side.
template <int n>
class ColumnsOfParts {
 public:
  explicit ColumnsOfParts(const ChannelParts& parts)
      : samples_(parts.samples),
        length_(parts.length),
        columns_(parts.columns() / n),
        positions_(parts.positions),
        blocks_(columns_, parts.count() / n) {}

  struct Part {
    std::int64_t column, begin, end;  ///< packs of a sample; samples
  };

  [[nodiscard]] KOKKOS_FUNCTION Part operator[](std::int64_t i) const {
    const std::int64_t block = blocks_.quotient(i), begin = block * length_;
    return {i - block * columns_, begin, begin + length_ < samples_ ? begin + length_ : samples_};
  }
  /// Of the pack in x.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t place(const Part& part, std::int64_t sample) const {
    return sample * columns_ + part.column;
  }
  /// Of the pack's value e.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t channel(const Part& part, int e) const {
    return n == 1 ? part.column / positions_ : part.column * n + e;
  }

 private:
  std::int64_t samples_, length_, columns_, positions_;
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
