#include <lockstep/tensor/kernels/elementwise/dropout.hpp>

#include <algorithm>

#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/copy.hpp>
#include <lockstep/tensor/kernels/elementwise/dropout_run.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t words = 4;  // random words in a Philox block

// Whole blocks run without a bounds check, so they vectorise: 11 times faster on rows of 4096
// (dropout_scale in benchmarks/tensor). For p = 1 the threshold would be 2^32, but `kept` is 0, so
// it does not matter. The rows of `scale` begin with block `first_block` of the whole ones.
template <class T, class Space>
void scale_kernel(const Space& space, double p, const RandomKey& key, std::int64_t first_block,
                  const Tensor& scale) {
  const std::int64_t rows = scale.size(0);
  const std::int64_t width = rows == 0 ? 0 : scale.numel() / rows;
  const auto out = view<Space, T, 2>(scale.reshape({rows, width}));
  const Philox philox(key.seed);
  const auto dropped_below = static_cast<std::uint32_t>(p < 1.0 ? p * 0x1p32 : 0.0);
  const T kept = p < 1.0 ? static_cast<T>(1.0 / (1.0 - p)) : T{0};
  const std::int64_t whole = width / words;
  for_each_part_of_rows(
      "lockstep::dropout_scale", space, rows, whole,
      KOKKOS_LAMBDA(std::int64_t r, std::int64_t begin, const Lanes<Space>& lanes) {
        const auto sample = static_cast<std::uint32_t>(key.first_sample + r);
        const std::uint32_t step = key.step_now(), stream = key.stream;
        lanes.each([&](std::int64_t l) {
          const std::int64_t b = begin + l;
          const auto block =
              philox(static_cast<std::uint32_t>(first_block + b), sample, step, stream);
          out(r, b * words) = block[0] < dropped_below ? T{0} : kept;
          out(r, b * words + 1) = block[1] < dropped_below ? T{0} : kept;
          out(r, b * words + 2) = block[2] < dropped_below ? T{0} : kept;
          out(r, b * words + 3) = block[3] < dropped_below ? T{0} : kept;
        });
        if (begin > 0) return;
        lanes.once([&] {
          const auto block =
              philox(static_cast<std::uint32_t>(first_block + whole), sample, step, stream);
          for (std::int64_t e = whole * words; e < width; ++e) {
            const auto word = block[static_cast<std::size_t>(e % words)];
            out(r, e) = word < dropped_below ? T{0} : kept;
          }
        });
      });
}

template <class Wide>
KOKKOS_FUNCTION Wide scale_of(Wide element, Wide) {
  return element;
}
template <class Wide>
KOKKOS_FUNCTION Wide scale_of(bool keep, Wide kept) {
  return keep ? kept : Wide{0};
}

// T: x and y; S: the scale, bool if it is a mask, whose elements `kept` multiplies.
template <class T, class S, class Space>
void apply_kernel(const Space& space, const Tensor& x, const Tensor& scale, SumOf<T> kept,
                  bool accumulate, const Tensor& y) {
  using Wide = SumOf<T>;
  const std::int64_t rows = scale.numel();
  const std::int64_t width = rows == 0 ? 0 : x.numel() / rows;
  const auto in = view<Space, const T, 2>(x.reshape({rows, width}));
  const auto factor = flat_view<Space, const S>(scale);
  const auto out = view<Space, T, 2>(y.reshape({rows, width}));
  for_each_part_of_rows(
      "lockstep::apply_scale", space, rows, width,
      KOKKOS_LAMBDA(std::int64_t r, std::int64_t begin, const Lanes<Space>& lanes) {
        const Wide by = scale_of<Wide>(factor(r), kept);
        lanes.each([&](std::int64_t l) {
          const std::int64_t c = begin + l;
          out(r, c) = static_cast<T>((accumulate ? static_cast<Wide>(out(r, c)) : Wide{0}) +
                                     static_cast<Wide>(in(r, c)) * by);
        });
      });
}

template <class T, class S, class Space>
void apply_elementwise_kernel(const Space& space, const Tensor& x, const Tensor& scale,
                              SumOf<T> kept, bool accumulate, const Tensor& y) {
  using Wide = SumOf<T>;
  const auto in = flat_view<Space, const T>(x);
  const auto factor = flat_view<Space, const S>(scale);
  const auto out = flat_view<Space, T>(y);
  set_or_add_elements(
      "lockstep::apply_scale_elementwise", space, x.numel(), accumulate, out,
      KOKKOS_LAMBDA(T x_at, S scale_at) {
        return static_cast<Wide>(x_at) * scale_of<Wide>(scale_at, kept);
      },
      in, factor);
}

template <class T, class S, class Space>
void run_apply(const Space& space, const Tensor& x, const Tensor& scale, double kept,
               bool accumulate, const Tensor& y) {
  const auto kernel = scale.numel() == x.numel() ? apply_elementwise_kernel<T, S, Space>
                                                 : apply_kernel<T, S, Space>;
  kernel(space, x, scale, static_cast<SumOf<T>>(kept), accumulate, y);
}

}  // namespace

void dropout_scale(double p, const RandomKey& key, const Tensor& scale) {
  dropout_scale_run(p, key, 0, scale);
}

void dropout_scale_run(double p, const RandomKey& key, std::int64_t first, const Tensor& scale) {
  if (!(p >= 0.0 && p <= 1.0)) {
    throw Error("dropout: the probability of dropping is " + std::to_string(p) +
                ", which is not between 0 and 1");
  }
  if (scale.dims() == 0) {
    throw ShapeError("dropout needs a leading dimension of samples, not " + describe(scale));
  }
  if (const std::int64_t before = first % words; before > 0) {  // the first block is drawn whole
    const std::int64_t rows = scale.size(0),
                       width = scale.numel() / std::max<std::int64_t>(rows, 1);
    const Tensor blocks = Tensor::empty({rows, before + width}, scale.dtype(), scale.device());
    dropout_scale_run(p, key, first - before, blocks);
    return narrow_copy(blocks, 1, before, false, scale.reshape({rows, width}));
  }
  dispatch(current_stream(scale.device()), [&](const auto& space) {
    if (scale.dtype() == DType::boolean) {
      return scale_kernel<bool>(space, p, key, first / words, scale);
    }
    dispatch_floating(scale.dtype(), "dropout",
                      [&]<class T>() { scale_kernel<T>(space, p, key, first / words, scale); });
  });
}

void apply_scale(const Tensor& x, const Tensor& scale, bool accumulate, const Tensor& y,
                 double kept) {
  const bool covers = scale.numel() == 0 ? x.numel() == 0 : x.numel() % scale.numel() == 0;
  const DType wanted = is_half(x.dtype()) ? DType::boolean : x.dtype();
  if (!covers || x.shape() != y.shape() || scale.dtype() != wanted) {
    throw ShapeError("apply_scale: scale " + describe(scale) + " does not cover " + describe(x) +
                     " evenly, or is not " + std::string(name_of(wanted)) + ", or the result " +
                     describe(y) + " has another shape");
  }
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "dropout", [&]<class T>() {
      using Scale = std::conditional_t<sizeof(T) == 2, bool, T>;
      run_apply<T, Scale>(space, x, scale, kept, accumulate, y);
    });
  });
}

}  // namespace lockstep
