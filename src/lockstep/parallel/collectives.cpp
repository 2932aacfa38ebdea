#include <lockstep/parallel/collectives.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/coalescing.hpp>

namespace lockstep {
namespace {

/// One collective under way: a receive and a send, or one call.
struct Works {
  Work first, second;

  void wait() {
    first.wait();
    second.wait();
  }
};

/// A linear map of all ranks' tensors: a collective with its root or offset.
struct Map {
  enum class Kind : std::uint8_t {
    all_reduce,
    average,
    all_gather,
    reduce_scatter,
    all_to_all,
    broadcast,
    reduce,
    shift
  };
  Kind kind;
  int where = 0;  // root or offset
  GroupPtr group;

  [[nodiscard]] Map transposed() const {
    switch (kind) {
      case Kind::all_gather:
        return {Kind::reduce_scatter, where, group};
      case Kind::reduce_scatter:
        return {Kind::all_gather, where, group};
      case Kind::broadcast:
        return {Kind::reduce, where, group};
      case Kind::reduce:
        return {Kind::broadcast, where, group};
      case Kind::shift:
        return {Kind::shift, -where, group};
      default:
        return *this;
    }
  }

  [[nodiscard]] Tensor output_for(const Tensor& x) const {
    switch (kind) {
      case Kind::all_gather: {
        std::array<std::int64_t, Shape::max_dims + 1> extents{group->size()};
        std::ranges::copy(x.shape(), extents.begin() + 1);
        const auto dims = static_cast<std::size_t>(x.dims()) + 1;
        return Tensor::empty(Shape(std::span(extents).first(dims)), x.dtype(), x.device());
      }
      case Kind::reduce_scatter:
        if (x.dims() == 0)
          throw ShapeError("reduce_scatter: the input is a scalar; it needs one row a rank.");
        return Tensor::empty(x.shape().without_leading(), x.dtype(), x.device());
      default:
        return Tensor::empty_like(x);
    }
  }

  [[nodiscard]] Works start(const Tensor& x, const Tensor& y) const {
    switch (kind) {
      case Kind::all_reduce:
        return {group->all_reduce(x, y, ReduceOp::sum), {}};
      case Kind::average:
        return {group->all_reduce(x, y, ReduceOp::avg), {}};
      case Kind::all_gather:
        return {group->all_gather(x, y), {}};
      case Kind::reduce_scatter:
        return {group->reduce_scatter(x, y, ReduceOp::sum), {}};
      case Kind::all_to_all:
        return {group->all_to_all(x, y), {}};
      case Kind::broadcast:
        if (group->rank() == where) y.copy_from(x);
        return {group->broadcast(y, where), {}};
      case Kind::reduce:
        if (group->rank() != where) y.zero();
        return {group->reduce(x, y, where, ReduceOp::sum), {}};
      case Kind::shift:
        break;
    }
    const int size = group->size();
    const int offset = ((where % size) + size) % size, rank = group->rank();
    if (offset == 0) {
      y.copy_from(x);
      return {};
    }
    const int from = (rank + size - offset) % size, to = (rank + offset) % size;
    if (x.device().type == DeviceType::host) {  // without a batch, which allocates
      Work received = group->irecv(y, from);
      return {std::move(received), group->isend(x, to)};
    }
    return {batch_isend_irecv(
                *group, {P2POp{P2POp::Kind::irecv, y, from}, P2POp{P2POp::Kind::isend, x, to}}),
            {}};
  }
};

}  // namespace

namespace detail {

/// State that the two nodes of a collective share: the map, the collective under way in forward,
/// and the transposed one that backward has started.
struct StartedExchange : RefCounted<StartedExchange> {
  explicit StartedExchange(Map m) : map(std::move(m)) {}
  void release() noexcept { ObjectPool<StartedExchange>::instance().recycle(this); }

  static PendingVariable start(const Variable& x, const Map& map);

  Map map;
  Tensor result;
  Works forward, backward;
};

namespace {

/// Where a collective was started. Its output is a ticket of x's shape, which only the other node
/// reads; its backward waits for the transposed collective.
class StartNode : public PooledNode<StartNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

  explicit StartNode(IntrusivePtr<StartedExchange> exchange) : exchange_(std::move(exchange)) {}
  void backward(const Tensor& grad_ticket) override {
    exchange_->backward.wait();
    pass_grad(0, grad_ticket);
  }
  void differentiate(Differentiation& d) override { d.give(0, d.grad_output()); }
  [[nodiscard]] const char* name() const noexcept override { return "start of a collective"; }

 private:
  IntrusivePtr<StartedExchange> exchange_;
};

/// Where it was waited for; backward starts the transposed collective.
class WaitNode : public PooledNode<WaitNode> {
 public:
  static constexpr bool mixes_layouts = true;  // ranks are rows of all_gather's output
  static constexpr std::uint32_t saved_inputs = 0;

  explicit WaitNode(IntrusivePtr<StartedExchange> exchange) : exchange_(std::move(exchange)) {}
  void backward(const Tensor& grad_output) override {
    const CallLabel label("backward of a collective");
    const Map transposed = exchange_->map.transposed();
    const Tensor gradient = transposed.output_for(grad_output);
    exchange_->backward = transposed.start(grad_output, gradient);
    pass_grad(0, gradient);
  }
  void differentiate(Differentiation& d) override {
    d.give(0, StartedExchange::start(d.grad_output(), exchange_->map.transposed()).wait());
  }
  [[nodiscard]] const char* name() const noexcept override { return "wait for a collective"; }

 private:
  IntrusivePtr<StartedExchange> exchange_;
};

}  // namespace

PendingVariable StartedExchange::start(const Variable& x, const Map& map) {
  if (!map.group)
    throw InputError("A differentiable collective needs a group, not a null pointer.");
  PendingVariable pending;
  pending.exchange_ =
      IntrusivePtr<StartedExchange>(ObjectPool<StartedExchange>::instance().make(map));
  StartedExchange& exchange = *pending.exchange_;
  exchange.result = map.output_for(x.data());
  exchange.forward = map.start(x.data(), exchange.result);
  pending.ticket_ = record<StartNode>(x.data(), {&x}, pending.exchange_);
  return pending;
}

}  // namespace detail

PendingVariable::PendingVariable() noexcept = default;
PendingVariable::PendingVariable(PendingVariable&& other) noexcept = default;
PendingVariable& PendingVariable::operator=(PendingVariable&& other) noexcept = default;
PendingVariable::~PendingVariable() = default;

Variable PendingVariable::wait() {
  if (!exchange_) throw Error("PendingVariable::wait: no collective is under way; call it once.");
  const auto exchange = std::exchange(exchange_, {});
  exchange->forward.wait();
  return record<detail::WaitNode>(std::move(exchange->result), {&ticket_}, exchange);
}

namespace {

PendingVariable start(const Variable& x, Map::Kind kind, const GroupPtr& group, int where = 0) {
  return detail::StartedExchange::start(x, {kind, where, group});
}

void expect_linear(const char* call, ReduceOp op) {
  if (op == ReduceOp::sum || op == ReduceOp::avg) return;
  throw InputError(std::string(call) + ": only sum and avg differentiate, not " + name_of(op) +
                   "; use ProcessGroup's function on x.data().");
}

}  // namespace

PendingVariable start_all_reduce(const Variable& x, const GroupPtr& group, ReduceOp op) {
  expect_linear("all_reduce", op);
  return start(x, op == ReduceOp::sum ? Map::Kind::all_reduce : Map::Kind::average, group);
}
PendingVariable start_all_gather(const Variable& x, const GroupPtr& group) {
  return start(x, Map::Kind::all_gather, group);
}
PendingVariable start_reduce_scatter(const Variable& x, const GroupPtr& group, ReduceOp op) {
  expect_linear("reduce_scatter", op);
  if (op == ReduceOp::sum || !group) return start(x, Map::Kind::reduce_scatter, group);
  return start(x * (1.0 / group->size()), Map::Kind::reduce_scatter, group);
}
PendingVariable start_all_to_all(const Variable& x, const GroupPtr& group) {
  return start(x, Map::Kind::all_to_all, group);
}
PendingVariable start_broadcast(const Variable& x, int root, const GroupPtr& group) {
  return start(x, Map::Kind::broadcast, group, root);
}
PendingVariable start_reduce(const Variable& x, int root, const GroupPtr& group) {
  return start(x, Map::Kind::reduce, group, root);
}
PendingVariable start_shift(const Variable& x, int offset, const GroupPtr& group) {
  return start(x, Map::Kind::shift, group, offset);
}

Variable all_reduce(const Variable& x, const GroupPtr& group, ReduceOp op) {
  return start_all_reduce(x, group, op).wait();
}
Variable all_gather(const Variable& x, const GroupPtr& group) {
  return start_all_gather(x, group).wait();
}
Variable reduce_scatter(const Variable& x, const GroupPtr& group, ReduceOp op) {
  return start_reduce_scatter(x, group, op).wait();
}
Variable all_to_all(const Variable& x, const GroupPtr& group) {
  return start_all_to_all(x, group).wait();
}
Variable broadcast(const Variable& x, int root, const GroupPtr& group) {
  return start_broadcast(x, root, group).wait();
}
Variable reduce(const Variable& x, int root, const GroupPtr& group) {
  return start_reduce(x, root, group).wait();
}
Variable shift(const Variable& x, int offset, const GroupPtr& group) {
  return start_shift(x, offset, group).wait();
}

namespace {

class SendNode : public PooledNode<SendNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

  SendNode(GroupPtr group, int peer, int tag) : group_(std::move(group)), peer_(peer), tag_(tag) {}
  void backward(const Tensor& /*grad_output*/) override {
    const CallLabel label("backward of send");
    const Tensor gradient = Tensor::empty_like(input(0).data());
    group_->recv(gradient, peer_, tag_);
    pass_grad(0, gradient);
  }
  [[nodiscard]] const char* name() const noexcept override { return "send"; }

 private:
  GroupPtr group_;
  int peer_, tag_;
};

class ReceiveNode : public PooledNode<ReceiveNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

  ReceiveNode(GroupPtr group, int peer, int tag)
      : group_(std::move(group)), peer_(peer), tag_(tag) {}
  void backward(const Tensor& grad_output) override {
    const CallLabel label("backward of receive");
    // Not waited for: ranks that have both sent to each other go on to receive.
    static_cast<void>(group_->isend(grad_output, peer_, tag_));
  }
  [[nodiscard]] const char* name() const noexcept override { return "receive"; }

 private:
  GroupPtr group_;
  int peer_, tag_;
};

/// An input that makes a call recorded wherever gradients are on.
Variable recorded_always() { return Variable(Tensor::empty({0}), true); }

}  // namespace

Variable send(const Variable& x, int peer, const GroupPtr& group, int tag) {
  if (!group) throw InputError("send needs a group, not a null pointer.");
  group->send(x.data(), peer, tag);
  const Variable always = recorded_always();
  return record<SendNode>(Tensor::zeros({}, x.data().dtype(), x.data().device()), {&x, &always},
                          group, peer, tag);
}

Variable receive(const Shape& shape, int peer, const GroupPtr& group, int tag, DType dtype,
                 Device device) {
  if (!group) throw InputError("receive needs a group, not a null pointer.");
  Tensor t = Tensor::empty(shape, dtype, device);
  group->recv(t, peer, tag);
  const Variable always = recorded_always();
  return record<ReceiveNode>(std::move(t), {&always}, group, peer, tag);
}

}  // namespace lockstep
