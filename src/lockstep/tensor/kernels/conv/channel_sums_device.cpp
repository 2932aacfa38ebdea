#include <lockstep/tensor/kernels/conv/channel_sums_device.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/channel_packs.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep::detail {
namespace {

template <int n, class T, class Space>
void sums_of_teams(const Space& space, const Tensor& x, const ChannelParts& parts,
                   const Tensor& partial) {
  using Wide = SumOf<T>;
  const T* const in = flat_view<Space, const T>(x).data();
  Wide* const out = flat_view<Space, Wide>(partial).data();
  const PacksOfParts<n> packs(parts);
  for_each_row(
      "lockstep::channel_sums_of_teams", space, parts.count(), parts.length / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        constexpr int loads = PacksOfParts<n>::loads;
        const auto part = packs[r];
        const std::int64_t strip = part.strip();
        const Wide sum = lanes.of_width(strip).sum([&](std::int64_t i) {
          Pack<T, n> loaded[loads];
          for (int l = 0; l < loads; ++l) {
            const std::int64_t k = part.begin + i + l * strip;
            loaded[l] = load_pack<n>(in, packs.place(part, k < part.end ? k : part.begin));
          }
          Wide found{0};
          for (int l = 0; l < loads; ++l) {
            const bool is_inside = part.begin + i + l * strip < part.end;
            for (int e = 0; e < n; ++e) {
              found += is_inside ? static_cast<Wide>(loaded[l].values[e]) : Wide{0};
            }
          }
          return found;
        });
        lanes.once([&] { out[r] = sum; });
      });
}

template <int n, class T, class Space>
void sums_of_columns(const Space& space, const Tensor& x, const ChannelParts& parts,
                     const Tensor& partial) {
  using Wide = SumOf<T>;
  const T* const in = flat_view<Space, const T>(x).data();
  Wide* const out = flat_view<Space, Wide>(partial).data();
  const ColumnsOfParts<n> columns(parts);
  for_each(
      "lockstep::channel_sums_of_columns", space, parts.count() / n, KOKKOS_LAMBDA(std::int64_t i) {
        const auto part = columns[i];
        const auto sums = sums_of_rows<8, Wide, n>(part.begin, part.end, [&](std::int64_t row) {
          const auto pack = load_pack<n>(in, columns.place(part, row));
          std::array<Wide, n> found;
          for (int e = 0; e < n; ++e) found[e] = static_cast<Wide>(pack.values[e]);
          return found;
        });
        for (int e = 0; e < n; ++e) out[i * n + e] = sums[e];
      });
}

/// Of channel c, from its parts.
template <class Wide, class To>
struct JoinSums {
  ChannelParts parts;
  const Wide* partial;
  bool accumulate;
  To* sums;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(std::int64_t c, const Lanes& lanes) const {
    const Wide total = lanes.sum([&](std::int64_t i) { return partial[parts.index(c, i)]; });
    lanes.once([&] {
      sums[c] = static_cast<To>((accumulate ? static_cast<Wide>(sums[c]) : Wide{0}) + total);
    });
  }
};

template <class To, class Wide, class Space>
void join(const Space& space, const ChannelParts& parts, const Tensor& partial, bool accumulate,
          const Tensor& sums) {
  for_each_short_row("lockstep::channel_sums_join", space, parts.channels, parts.of_a_channel(),
                     JoinSums<Wide, To>{parts, flat_view<Space, const Wide>(partial).data(),
                                        accumulate, flat_view<Space, To>(sums).data()});
}

}  // namespace

void channel_sums_on_device(const Tensor& x, bool accumulate, const Tensor& sums) {
  const ChannelParts parts(planes(x), size_of(x.dtype()));
  const Tensor partial = Tensor::empty({parts.count()}, sum_dtype(x.dtype()), x.device());
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "channel_sums", [&]<class T>() {
      using Wide = SumOf<T>;
      with_packs(parts, {&x}, [&]<int n, PackOf of>() {
        if (!parts.by_columns) return sums_of_teams<n, T>(space, x, parts, partial);
        sums_of_columns<channels_of_a_pack(n, of), T>(space, x, parts, partial);
      });
      if (sums.dtype() == x.dtype()) {
        join<T, Wide>(space, parts, partial, accumulate, sums);
      } else {
        join<Wide, Wide>(space, parts, partial, accumulate, sums);
      }
    });
  });
}

}  // namespace lockstep::detail
