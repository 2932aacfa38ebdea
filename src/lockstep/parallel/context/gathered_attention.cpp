#include <lockstep/parallel/context/gathered_attention.hpp>

#include <algorithm>
#include <vector>

#include <lockstep/autograd/functional/attention.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/parallel/collectives.hpp>

namespace lockstep::detail {
namespace {

class Gathered {
 public:
  explicit Gathered(const RingPlan& plan) : plan_(plan) {
    for (int r = 0; r < plan.group->size(); ++r) {
      longest_ = std::max(longest_, plan.keys_of(r));
      total_ += plan.keys_of(r);
    }
  }

  /// x[B,G,S,D] of all ranks, one after another: [B,G,all S,D].
  [[nodiscard]] Variable heads(const Variable& x) const {
    const std::int64_t missing = longest_ - x.shape()[2];
    const Shape rest{plan_.batch, plan_.key_heads, missing, plan_.width};
    const Variable none(Tensor::zeros(rest, x.data().dtype(), x.data().device()));
    const Variable all = all_gather(missing > 0 ? concat({x, none}, 2) : x, plan_.group);
    std::vector<Variable> parts;
    for (int r = 0; r < plan_.group->size(); ++r) {
      const Variable part =
          reshape(narrow(all, 0, r, 1), {plan_.batch, plan_.key_heads, longest_, plan_.width});
      parts.push_back(narrow(part, 2, 0, plan_.keys_of(r)));
    }
    return concat(parts, 2);
  }

  /// Which of all keys each of this rank's queries sees: bool [T, all S] on the host.
  [[nodiscard]] Tensor visible() const {
    const int rank = plan_.group->rank();
    Tensor mask = Tensor::empty({plan_.queries, total_}, DType::boolean);
    auto* at = static_cast<bool*>(mask.data());
    for (const RingChunk& queries : plan_.chunks(rank, plan_.queries)) {
      for (std::int64_t i = 0; i < queries.count; ++i) {
        for (int r = 0; r < plan_.group->size(); ++r) {
          for (const RingChunk& keys : plan_.chunks(r, plan_.keys_of(r))) {
            for (std::int64_t j = 0; j < keys.count; ++j) {
              *at++ = keys.place < queries.place || (keys.place == queries.place && j <= i);
            }
          }
        }
      }
    }
    return mask;
  }

  /// All ranks' masks, one after another: bool [B, all S] on the host.
  [[nodiscard]] Tensor hidden(const Tensor& key_padding_mask) const {
    const std::int64_t mine = key_padding_mask.size(1), batch = plan_.batch;
    const Tensor here = key_padding_mask.to(Device{});
    const Tensor sent = Tensor::zeros({batch, longest_}, DType::boolean);
    for (std::int64_t b = 0; b < batch; ++b) sent[b].slice(0, mine).copy_from(here[b]);
    const Tensor all = Tensor::empty({plan_.group->size(), batch, longest_}, DType::boolean);
    plan_.group->all_gather(sent, all).wait();
    Tensor mask = Tensor::empty({batch, total_}, DType::boolean);
    for (std::int64_t b = 0; b < batch; ++b) {
      std::int64_t at = 0;
      for (int r = 0; r < plan_.group->size(); ++r) {
        const std::int64_t count = plan_.keys_of(r);
        mask[b].slice(at, at + count).copy_from(all[r][b].slice(0, count));
        at += count;
      }
    }
    return mask;
  }

 private:
  const RingPlan& plan_;
  std::int64_t longest_ = 0, total_ = 0;
};

}  // namespace

Variable gathered_attention(const RingPlan& plan, const Tensor& key_padding_mask, const Variable& q,
                            const Variable& k, const Variable& v) {
  const Gathered gathered(plan);
  const Device device = q.data().device();
  AttentionOptions options;
  options.scale = plan.scale;
  if (plan.causal) options.mask = gathered.visible().to(device);
  if (plan.pads) options.key_padding_mask = gathered.hidden(key_padding_mask).to(device);
  const Variable keys = gathered.heads(k), values = gathered.heads(v);
  return scaled_dot_product_attention(q, keys, values, options);
}

}  // namespace lockstep::detail
