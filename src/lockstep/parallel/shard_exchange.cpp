#include <lockstep/parallel/shard_exchange.hpp>

#include <fmt/format.h>

#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/duplicate_group.hpp>
#include <lockstep/parallel/bucket.hpp>
#include <lockstep/parallel/shard_sum.hpp>

namespace lockstep {

ShardExchange::ShardExchange(ProcessGroup& group, const ShardTree& tree,
                             std::shared_ptr<ShardTurns> turns)
    : group_(duplicate_of(group)),
      tree_(tree),
      own_(tree.shards() / group.size()),
      turns_(std::move(turns)),
      pile_(tree) {}

void ShardExchange::bring(const Tensor& t, const char* what,
                          const std::function<void()>& then) const {
  const std::int64_t shard = turns_->comes();
  if (shard == 0) {
    const auto bytes = own_ * static_cast<std::int64_t>(t.bytes());
    if (!memory_.defined() || memory_.numel() < bytes) {  // on all ranks: they call alike
      memory_ = memory_to_reduce(*group_, {bytes}, DType::u8, t.device());
    }
    rows_ = Tensor::over(memory_.storage(), memory_.offset_bytes(), {own_, t.numel()}, t.dtype());
    what_ = what;
  } else if (what != what_ || t.numel() != rows_.size(1) || t.dtype() != rows_.dtype()) {
    throw Error(fmt::format(
        "{} of {}, where the first shard of this rank is in {} of {} elements: the body of "
        "for_each_shard() is to run the same SyncBatchNorm layers for every shard, in one order",
        what, describe(t), what_, rows_.size(1)));
  }
  rows_.slice(shard, shard + 1).copy_from(t.reshape({1, t.numel()}));
  const auto exchange = [&] {
    const CallLabel label(what);
    of_all_ = Tensor::empty({tree_.shards(), t.numel()}, t.dtype(), t.device());
    group_->all_gather(rows_, of_all_.reshape({group_->size(), own_, t.numel()})).wait();
    then();
  };
  turns_->meet(std::cref(exchange));
}

Tensor ShardExchange::gather(const Tensor& mine) const {
  bring(mine, "batch norm, forward", [] {});
  return of_all_;
}

void ShardExchange::sum(const Tensor& t) const {
  bring(t, "batch norm, backward", [this] {
    pile_.clear();
    for (std::int64_t shard = 0; shard < tree_.shards(); ++shard) {
      add_to_pile(pile_, {shard, shard + 1}, of_all_, shard);
    }
  });
  t.copy_from(of_all_.slice(0, 1).reshape(t.shape()));
}

}  // namespace lockstep
