#include <lockstep/parallel/sync_batch_norm.hpp>

#include <utility>

#include <lockstep/autograd/functional/batch_norm.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/duplicate_group.hpp>
#include <lockstep/nn/blocked_layer.hpp>
#include <lockstep/parallel/bucket.hpp>

namespace lockstep {
namespace {

[[maybe_unused]] const bool sync_batch_norm_is_known = nn::add_blocked_layer(typeid(SyncBatchNorm));

class GroupExchange final : public StatisticsExchange {
 public:
  explicit GroupExchange(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  [[nodiscard]] Tensor gather(const Tensor& mine) const override {
    const CallLabel label("batch norm, forward");
    Tensor all = Tensor::empty({group_->size(), mine.size(0)}, mine.dtype(), mine.device());
    group_->all_gather(in_shared_buffer(mine), all).wait();
    return all;
  }

  void sum(const Tensor& t) const override {
    const CallLabel label("batch norm, backward");
    const Tensor shared = in_shared_buffer(t);
    group_->all_reduce(shared, ReduceOp::sum).wait();
    if (shared.data() != t.data()) t.copy_from(shared);
  }

 private:
  /// A copy in memory shared by the ranks of a machine; across machines messages are used. On a
  /// device t itself.
  [[nodiscard]] Tensor in_shared_buffer(const Tensor& t) const {
    if (t.device().type != DeviceType::host) return t;
    const auto bytes = static_cast<std::int64_t>(t.bytes());
    if (!memory_.defined() ||
        memory_.numel() < bytes) {  // the same on all ranks, so all take this branch
      memory_ = memory_to_reduce(*group_, {bytes}, DType::u8, t.device());
    }
    Tensor copy = Tensor::over(memory_.storage(), memory_.offset_bytes(), t.shape(), t.dtype());
    copy.copy_from(t);
    return copy;
  }

  std::shared_ptr<ProcessGroup> group_;
  mutable Tensor memory_;
};

}  // namespace

std::shared_ptr<const StatisticsExchange> make_statistics_exchange(ProcessGroup& group) {
  return std::make_shared<GroupExchange>(duplicate_of(group));
}

void convert_sync_batchnorm(nn::Module& module, ProcessGroup& group) {
  const std::vector<nn::BatchNorm*> layers = nn::batch_norms_of(module);
  if (layers.empty()) return;
  const auto exchange = make_statistics_exchange(group);
  for (nn::BatchNorm* layer : layers) layer->set_exchange(exchange);
}

SyncBatchNorm::SyncBatchNorm(std::int64_t features, ProcessGroup& group,
                             const nn::BatchNormOptions& options)
    : BatchNorm("SyncBatchNorm", 2, 5, features, options) {
  set_exchange(make_statistics_exchange(group));
}

}  // namespace lockstep
