#include <lockstep/tensor/kernels/sequence/attention_key_bias.hpp>

#include <limits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep::detail {
namespace {

template <class Space>
void key_bias_kernel(const Space& space, const Tensor& mask, const Tensor& bias) {
  const auto hidden = flat_view<Space, const bool>(mask);
  const auto added = flat_view<Space, float>(bias);
  const std::int64_t keys = mask.size(1), row = bias.size(1);
  for_each(
      "lockstep::attention_key_bias", space, bias.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t c = i % row;
        added(i) = c < keys && hidden(i / row * keys + c) ? -1e30F : 0.0F;
      });
}

/// first[B]: each sample's first key that may be seen; S if there is none.
template <class Space>
void first_key_kernel(const Space& space, const Tensor& mask, const Tensor& first) {
  const auto hidden = flat_view<Space, const bool>(mask);
  const auto result = flat_view<Space, std::int64_t>(first);
  const std::int64_t keys = mask.size(1);
  for_each_row(
      "lockstep::attention_first_key", space, mask.size(0), keys,
      KOKKOS_LAMBDA(std::int64_t b, const Lanes<Space>& lanes) {
        const std::int64_t key =
            -lanes.max(-keys, [&](std::int64_t c) { return hidden(b * keys + c) ? -keys : -c; });
        lanes.once([&] { result(b) = key; });
      });
}

template <class T, class Space>
void blind_queries_kernel(const Space& space, const AttentionPlan& plan, const Tensor& first,
                          const Heads& out, const Tensor& log_sum) {
  const auto first_key = flat_view<Space, const std::int64_t>(first);
  const auto elements = flat_view<Space, T>(out.tensor);
  const auto sums = flat_view<Space, float>(log_sum);
  const std::int64_t heads = plan.heads, queries = plan.queries, keys = plan.keys;
  const std::int64_t width = plan.width;
  const std::int64_t offset = out.offset, batch = out.batch, head = out.head, row = out.row;
  const bool causal = plan.causal;
  for_each(
      "lockstep::attention_blind_queries", space, log_sum.numel(), KOKKOS_LAMBDA(std::int64_t r) {
        const std::int64_t t = r % queries, h = r / queries % heads, b = r / (queries * heads);
        const std::int64_t last = causal && t < keys ? t : keys - 1;
        if (first_key(b) <= last) return;
        const std::int64_t begin = offset + b * batch + h * head + t * row;
        for (std::int64_t c = 0; c < width; ++c) elements(begin + c) = T();
        sums(r) = std::numeric_limits<float>::infinity();
      });
}

}  // namespace

Tensor key_bias(const Tensor& key_padding_mask) {
  const std::int64_t row = (key_padding_mask.size(1) + 3) / 4 * 4;
  Tensor bias =
      Tensor::empty({key_padding_mask.size(0), row}, DType::f32, key_padding_mask.device());
  dispatch(current_stream(bias.device()),
           [&](const auto& space) { key_bias_kernel(space, key_padding_mask, bias); });
  return bias;
}

void clear_blind_queries(const AttentionPlan& plan, const Heads& out, const Tensor& log_sum) {
  const Tensor first = Tensor::empty({plan.batch}, DType::i64, log_sum.device());
  dispatch(current_stream(log_sum.device()), [&](const auto& space) {
    first_key_kernel(space, plan.key_padding_mask, first);
    dispatch_stored(out.tensor.dtype(), "attention",
                    [&]<class T>() { blind_queries_kernel<T>(space, plan, first, out, log_sum); });
  });
}

}  // namespace lockstep::detail
