#include <lockstep/parallel/context/ring_of_keys.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/coalescing.hpp>
#include <lockstep/tensor/kernels/elementwise/copy.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep::detail {
namespace {

using Chunk = RingChunk;

/// One block of attention: queries of this rank to keys of another one's slice.
struct Block {
  Chunk queries, keys;
  [[nodiscard]] bool on_diagonal() const { return queries.place == keys.place; }
};

class Loop {
 public:
  explicit Loop(const RingPlan& plan)
      : plan_(plan), rank_(plan.group->rank()), size_(plan.group->size()) {}

  /// The rank whose keys are here at this step.
  [[nodiscard]] int source(int step) const { return (rank_ - step + 2 * size_) % size_; }
  [[nodiscard]] int steps() const { return size_; }

  /// Calls f(block) for all blocks with keys of rank `source`.
  template <class F>
  void each_block(int source, const F& f) const {
    for (const Chunk& queries : plan_.chunks(rank_, plan_.queries)) {
      for (const Chunk& keys : plan_.chunks(source, keys_of(source))) {
        const bool seen = !plan_.causal || keys.place <= queries.place;
        if (seen && queries.count > 0 && keys.count > 0) f(Block{queries, keys});
      }
    }
  }

  [[nodiscard]] std::int64_t keys_of(int rank) const { return plan_.keys_of(rank); }
  /// Memory of `like`'s kind for any rank's travelling bytes, or for the gradients of its keys.
  [[nodiscard]] Tensor buffer(const Tensor& like) const {
    return buffer(like, [&](int r) { return plan_.elements_sent(r); });
  }
  [[nodiscard]] Tensor gradient_buffer(const Tensor& like) const {
    return buffer(like, [&](int r) { return plan_.elements(r); });
  }
  [[nodiscard]] Tensor of_rank(const Tensor& buffer, int rank) const {
    return buffer.slice(0, plan_.elements_sent(rank));
  }
  [[nodiscard]] Tensor gradient_of_rank(const Tensor& buffer, int rank) const {
    return buffer.slice(0, plan_.elements(rank));
  }
  /// The mask of the keys of `source`'s chunk, 0 and 1, in the travelling bytes: [B, count]. A
  /// chunk's rows are together.
  [[nodiscard]] Tensor padding(const Tensor& buffer, int source, const Chunk& keys) const {
    const std::int64_t begin = plan_.elements(source) + plan_.batch * keys.begin;
    return buffer.slice(begin, begin + plan_.batch * keys.count).reshape({plan_.batch, keys.count});
  }

  /// Keys (0) or values (1) of a block's key heads, in a buffer with those of rank `source`.
  [[nodiscard]] Heads keys(const Tensor& buffer, int which, int source, const Block& block) const {
    const std::int64_t length = keys_of(source), embed = plan_.key_heads * plan_.width;
    const std::int64_t row = plan_.packed ? 2 * embed : plan_.width;
    const std::int64_t begin = block.keys.begin * row;
    if (plan_.packed) {
      return {.tensor = buffer,
              .offset = which * embed + begin,
              .batch = length * row,
              .head = plan_.width,
              .row = row};
    }
    return {.tensor = buffer,
            .offset = which * plan_.batch * length * embed + begin,
            .batch = length * embed,
            .head = length * row,
            .row = row};
  }
  /// Of the query heads, number `member` of each group.
  [[nodiscard]] Heads queries(const Heads& heads, std::int64_t member, const Block& block) const {
    Heads result = heads;
    result.offset += member * heads.head + block.queries.begin * heads.row;
    result.head *= plan_.group_heads();
    return result;
  }
  /// The same of log_sum or row sums: [B,G,count], of a flat tensor in which a chunk's are
  /// together.
  [[nodiscard]] Tensor rows(const Tensor& flat, std::int64_t member, const Block& block) const {
    const std::int64_t each = plan_.batch * plan_.key_heads * block.queries.count;
    const std::int64_t begin = plan_.batch * plan_.heads * block.queries.begin + member * each;
    return flat.slice(begin, begin + each)
        .reshape({plan_.batch, plan_.key_heads, block.queries.count});
  }
  /// All query rows as blocks: for computations that do not depend on keys.
  template <class F>
  void each_chunk_of_queries(const F& f) const {
    for (const Chunk& queries : plan_.chunks(rank_, plan_.queries)) {
      if (queries.count > 0) f(Block{queries, {}});
    }
  }

  /// Attention of this block, whose keys are rank `source`'s, in `buffer`.
  [[nodiscard]] AttentionPlan attention(const Tensor& buffer, int source,
                                        const Block& block) const {
    return {.batch = plan_.batch,
            .heads = plan_.key_heads,
            .queries = block.queries.count,
            .keys = block.keys.count,
            .width = plan_.width,
            .scale = plan_.scale,
            .causal = plan_.causal && block.on_diagonal(),
            .mask = {},
            .key_padding_mask =
                plan_.pads ? padding(buffer, source, block.keys).to(DType::boolean) : Tensor()};
  }

 private:
  template <class Elements>
  [[nodiscard]] Tensor buffer(const Tensor& like, const Elements& elements) const {
    std::int64_t most = 0;
    for (int r = 0; r < size_; ++r) most = std::max(most, elements(r));
    return Tensor::empty({most}, like.dtype(), like.device());
  }

  const RingPlan& plan_;
  int rank_, size_;
};

/// A message to the next rank and one from the rank before, under way. Those of keys and of
/// gradients need no tags, which NCCL does not have: all ranks start them in the same order.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const GroupPtr& group, const Tensor& out, const Tensor& in) {
    const CallLabel label("ring attention");
    const int rank = group->rank(), size = group->size();
    const int from = (rank + size - 1) % size, to = (rank + 1) % size;
    if (out.device().type == DeviceType::host) {  // without a batch, which allocates
      received_ = group->irecv(in, from);
      sent_ = group->isend(out, to);
    } else {
      received_ = batch_isend_irecv(
          *group, {P2POp{P2POp::Kind::irecv, in, from}, P2POp{P2POp::Kind::isend, out, to}});
    }
  }
  void wait() {
    received_.wait();
    sent_.wait();
  }
  /// Advances messages in flight if no thread does.
  void poll() {
    static_cast<void>(received_.test());
    static_cast<void>(sent_.test());
  }

 private:
  Work received_, sent_;
};

/// Passes the keys and values of this step on and receives those of the step after into `next`,
/// which is made when it is first needed. The last step sends nothing.
Exchange passed_on(const Loop& loop, const GroupPtr& group, int step, const Tensor& current,
                   Tensor& next) {
  if (step + 1 == loop.steps()) return {};
  if (!next.defined()) next = loop.buffer(current);
  return {group, loop.of_rank(current, loop.source(step)),
          loop.of_rank(next, loop.source(step + 1))};
}

}  // namespace

std::array<RingChunk, 2> RingPlan::chunks(int rank, std::int64_t length) const {
  if (!causal || order == SequenceOrder::contiguous) {
    return {RingChunk{rank, 0, length}, RingChunk{rank, length, 0}};
  }
  const std::int64_t first = (length + 1) / 2;
  const int last = 2 * group->size() - 1;
  return {RingChunk{rank, 0, first}, RingChunk{last - rank, first, length - first}};
}

Heads query_heads(const RingPlan& plan, const Tensor& q) {
  if (!plan.packed) return heads_of(q);
  const std::int64_t row = q.size(2);
  return {.tensor = q, .offset = 0, .batch = q.size(1) * row, .head = plan.width, .row = row};
}

Heads output_heads(const RingPlan& plan, const Tensor& out) {
  return plan.packed ? heads_in(out, plan.heads, 0, 1) : heads_of(out);
}

Tensor as_they_travel(const RingPlan& plan, const Tensor& keys_values,
                      const Tensor& key_padding_mask) {
  if (!plan.pads) return keys_values.to(plan.key_dtype);
  const Loop loop(plan);
  const int rank = plan.group->rank();
  Tensor result = Tensor::empty({plan.elements_sent(rank)}, plan.key_dtype, keys_values.device());
  convert(keys_values, result.slice(0, plan.elements(rank)));
  const Tensor mask = key_padding_mask.to(DType::f32);
  for (const Chunk& chunk : plan.chunks(rank, plan.keys_of(rank))) {
    if (chunk.count == 0) continue;
    const Tensor part = Tensor::empty({plan.batch, chunk.count}, DType::f32, mask.device());
    narrow_copy(mask, 1, chunk.begin, false, part);
    convert(part, loop.padding(result, rank, chunk));
  }
  return result;
}

void ring_forward(const RingPlan& plan, const Heads& q, Tensor keys_values, const Heads& out,
                  const Tensor& log_sum) {
  const Loop loop(plan);
  Tensor current = std::move(keys_values), next, block_out, block_log_sum;
  // This rank's own keys come first. A row that sees none of them has no keys so far.
  const bool begins_empty = loop.keys_of(loop.source(0)) == 0;
  if (begins_empty) {
    out.tensor.zero();
    log_sum.fill(std::numeric_limits<double>::infinity());
  }
  std::array<bool, 2> begun{begins_empty, begins_empty};
  for (int step = 0; step < loop.steps(); ++step) {
    const int source = loop.source(step);
    Exchange exchange = passed_on(loop, plan.group, step, current, next);
    loop.each_block(source, [&](const Block& block) {
      const AttentionPlan attention = loop.attention(current, source, block);
      bool& has_begun = begun[block.queries.begin == 0 ? 0 : 1];
      for (std::int64_t member = 0; member < plan.group_heads(); ++member) {
        const Heads queries = loop.queries(q, member, block);
        const Heads keys = loop.keys(current, 0, source, block);
        const Heads values = loop.keys(current, 1, source, block);
        const Heads result = loop.queries(out, member, block);
        const Tensor sums = loop.rows(log_sum, member, block);
        if (!has_begun) {
          attention_forward(attention, queries, keys, values, result, sums);
        } else {
          const Shape shape{plan.batch, plan.key_heads, block.queries.count, plan.width};
          if (!block_out.defined() || block_out.shape() != shape) {
            block_out = Tensor::empty(shape, log_sum.dtype(), log_sum.device());
            block_log_sum = Tensor::empty(sums.shape(), log_sum.dtype(), log_sum.device());
          }
          attention_forward(attention, queries, keys, values, heads_of(block_out), block_log_sum);
          merge_attention(block_out, block_log_sum, result, sums);
        }
        exchange.poll();
      }
      has_begun = true;
    });
    exchange.wait();
    if (step == 0) {
      current = std::exchange(next, {});  // that of this rank may be too small for the others'
    } else {
      std::swap(current, next);
    }
  }
}

Tensor ring_backward(const RingPlan& plan, const Heads& grad_out, const Heads& q,
                     Tensor keys_values, const Heads& out, const Tensor& log_sum,
                     const AttentionGrad& grad_q, bool wants_keys) {
  const Loop loop(plan);
  const Tensor dots = Tensor::empty_like(log_sum);
  loop.each_chunk_of_queries([&](const Block& block) {
    for (std::int64_t member = 0; member < plan.group_heads(); ++member) {
      attention_row_dots(loop.queries(grad_out, member, block), loop.queries(out, member, block),
                         plan.width, loop.rows(dots, member, block));
    }
  });
  Tensor current = std::move(keys_values), next;
  Tensor mine, sent, come;  // gradients of one rank's keys and values
  if (wants_keys) {
    mine = loop.gradient_buffer(log_sum);
    if (loop.steps() > 1) {
      sent = loop.gradient_buffer(log_sum);
      come = loop.gradient_buffer(log_sum);
    }
  }
  std::array<bool, 2> accumulate{grad_q.accumulate, grad_q.accumulate};
  const bool wants_queries = grad_q.heads.tensor.defined();
  if (wants_queries && loop.keys_of(loop.source(0)) == 0 && !grad_q.accumulate) {
    grad_q.heads.tensor.zero();
    accumulate = {true, true};
  }
  Exchange gradients;
  for (int step = 0; step < loop.steps(); ++step) {
    const int source = loop.source(step);
    Exchange exchange = passed_on(loop, plan.group, step, current, next);
    const auto grad_of_keys = [&](int which, const Block& block) {
      return wants_keys ? AttentionGrad{loop.keys(mine, which, source, block), true}
                        : AttentionGrad{};
    };
    if (wants_keys) loop.gradient_of_rank(mine, source).zero();
    loop.each_block(source, [&](const Block& block) {
      const AttentionPlan attention = loop.attention(current, source, block);
      bool& add = accumulate[block.queries.begin == 0 ? 0 : 1];
      for (std::int64_t member = 0; member < plan.group_heads(); ++member) {
        AttentionGrad to_queries;
        if (wants_queries) to_queries = {loop.queries(grad_q.heads, member, block), add};
        attention_backward(attention, loop.queries(grad_out, member, block),
                           loop.queries(q, member, block), loop.keys(current, 0, source, block),
                           loop.keys(current, 1, source, block), loop.rows(log_sum, member, block),
                           to_queries, grad_of_keys(0, block), grad_of_keys(1, block),
                           loop.rows(dots, member, block));
        exchange.poll();
        gradients.poll();
      }
      add = true;
    });
    if (wants_keys && loop.steps() > 1) {
      gradients.wait();
      // Gradients of these keys from the ranks before; they go on to the next rank, the last
      // time to their owner.
      if (step > 0) loop.gradient_of_rank(mine, source) += loop.gradient_of_rank(come, source);
      gradients = Exchange(plan.group, loop.gradient_of_rank(mine, source),
                           loop.gradient_of_rank(come, loop.source(step + 1)));
      std::swap(mine, sent);
    }
    exchange.wait();
    if (step == 0) {
      current = std::exchange(next, {});
    } else {
      std::swap(current, next);
    }
  }
  gradients.wait();
  const Tensor& result = loop.steps() > 1 ? come : mine;
  return wants_keys ? loop.gradient_of_rank(result, loop.source(0)) : Tensor();
}

}  // namespace lockstep::detail
