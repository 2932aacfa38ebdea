#include <lockstep/comm/mpi_work.hpp>

#include <fmt/format.h>
#include <sched.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/comm/mpi_status.hpp>
#include <lockstep/comm/node_collective.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

// Polls before the first yield: about as long as a small all-reduce takes, so that it never pays
// for a system call, while ranks that outnumber the cores soon make room for each other.
constexpr int spins = 100;

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

bool is_half(const Tensor& t) {
  return t.defined() && (t.dtype() == DType::f16 || t.dtype() == DType::bf16);
}

bool on_device(const Tensor& t) { return t.defined() && t.device().type != DeviceType::host; }

/// A stage of a collective as one number, larger for later ones: 2^24 stages of 2^40 collectives.
std::uint64_t stage_mark(std::uint64_t sequence, unsigned stage) { return sequence << 24U | stage; }

/// Some of the memory of `a` is also `b`'s.
bool overlap(const Tensor& a, const Tensor& b) {
  const auto *x = static_cast<const std::byte*>(a.data()),
             *y = static_cast<const std::byte*>(b.data());
  return x < y + b.bytes() && y < x + a.bytes();
}

/// `t` on the host, in `dtype`.
Tensor on_host(const Tensor& t, DType dtype) {
  if (!on_device(t)) return t.to(dtype);
  const auto copy = Tensor::empty(t.shape(), t.dtype());
  copy.copy_from(t);
  return copy.to(dtype);
}

}  // namespace

/// While it lives, the caller is inside wait().
class MpiWork::Waiting {
 public:
  explicit Waiting(MpiCore& core) : core_(core) {
    core_.waiting_.store(true, std::memory_order_relaxed);
  }
  ~Waiting() { core_.waiting_.store(false, std::memory_order_relaxed); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  MpiCore& core_;
};

/// Adds the time it lives to the group's own work, where a wait sees it and there is enough of it
/// for reading the clock (0.05 us twice) not to matter.
class MpiWork::WorkTimer {
 public:
  WorkTimer(MpiCore& core, const Tensor& t)
      : core_(core),
        counts_(core.waiting_.load(std::memory_order_relaxed) && t.bytes() >= (64U << 10U)) {
    if (counts_) start_ = Clock::now();
  }
  ~WorkTimer() {
    if (counts_) core_.work_seconds_.fetch_add(seconds_since(start_), std::memory_order_relaxed);
  }
  WorkTimer(const WorkTimer&) = delete;
  WorkTimer& operator=(const WorkTimer&) = delete;

 private:
  MpiCore& core_;
  bool counts_;
  Clock::time_point start_;
};

bool MpiWork::stages() const {
  const Tensor &input = operation_.input, &output = operation_.output;
  if (on_device(input) || on_device(output)) return true;
  if (!reduces(operation_.kind)) return false;
  // MPI has no 16-bit floats; and it does not take a reduce_scatter into its own input.
  return is_half(input) || (operation_.kind == Kind::reduce_scatter && overlap(input, output));
}

void MpiWork::stage() {
  const Tensor &input = operation_.input, &output = operation_.output;
  const auto wire_dtype = [&](const Tensor& t) {
    return reduces(operation_.kind) && is_half(t) ? DType::f32 : t.dtype();
  };
  if (input.defined()) staged_input_ = on_host(input, wire_dtype(input));
  if (!output.defined()) return;
  staged_output_ = operation_.in_place() && operation_.kind == Kind::broadcast
                       ? staged_input_
                       : Tensor::empty(output.shape(), wire_dtype(output));
}

void MpiWork::call() {
  phase_ = Phase::calling;
  const MpiPlace place{core_->comm_, core_->message_comm_,      core_->rank_,
                       core_->size_, core_->options_.max_count, core_->probes_};
  if (!stages()) {
    status_ = start_calls(operation_, place, calls_);
    return;
  }
  stage();
  Operation staged = operation_;
  staged.input = staged_input_;
  staged.output = staged_output_;
  status_ = start_calls(staged, place, calls_);
}

int MpiWork::advance() {
  while (status_ == MPI_SUCCESS && in_flight() && step()) {
  }
  return status_;
}

bool MpiWork::step() {
  switch (phase_) {
    case Phase::posting:
      return post();
    case Phase::agreeing:
      return agree();
    case Phase::agreeing_nodes:
      return agree_nodes();
    case Phase::relaying:
      return relay();
    case Phase::sharing:
      return share();
    case Phase::leading:
      return lead();
    case Phase::closing:
      return close();
    case Phase::calling:
      return await_calls();
    case Phase::done:
    case Phase::failed:
      return false;
  }
  return false;
}

bool MpiWork::post() {
  NodeGroup& node = *core_->node_;
  if (!node.board().may_post(operation_.sequence)) return false;
  write_call(node, operation_, core_->options_.contract);
  node.board().post(operation_.sequence);
  phase_ = Phase::agreeing;
  return true;
}

// In the order of the calls, on every rank: another rank may post the older of two collectives, and
// then the younger, after this one has looked for the older and before it looks for the younger.
bool MpiWork::agree() {
  if (operation_.sequence != core_->on_their_way_ + 1) return false;
  const NodeGroup& node = *core_->node_;
  const Board& board = node.board();
  const std::uint64_t mine = board.mine(operation_.sequence).fingerprint;
  const bool checks = core_->options_.contract != Contract::off;
  for (; peer_ < node.size(); ++peer_) {
    if (!board.has_posted(peer_, operation_.sequence)) return false;
    const Board::Slot& theirs = board.slot(peer_, operation_.sequence);
    if (checks && disputed_ < 0 && theirs.fingerprint != mine) disputed_ = peer_;
  }
  if (disputed_ < 0) core_->flight_.agreed(ticket_);
  if (node.is_whole_group()) {
    if (disputed_ >= 0) core_->mismatch(*this, disputed_);
    core_->on_their_way_ = operation_.sequence;
    choose_way();
    return true;
  }
  // A node that is not of one mind agrees with nobody.
  constexpr auto none = ~std::uint64_t{0};
  const std::uint64_t in_messages = goes_over_nodes(node, operation_) ? 0 : 1;
  fingerprints_ = {disputed_ < 0 ? mine : none, disputed_ < 0 ? ~mine : none, in_messages};
  if (node.is_leader()) {
    status_ =
        MPI_Iallreduce(MPI_IN_PLACE, fingerprints_.data(), static_cast<int>(fingerprints_.size()),
                       MPI_UINT64_T, MPI_MAX, node.leaders(), &calls_.requests.add());
  }
  phase_ = Phase::agreeing_nodes;
  return true;
}

// The leader of each node tells its ranks what the leaders found: the collective's number, and in
// the last bits whether the calls are equal and whether all nodes have their tensors in shared
// buffers.
bool MpiWork::agree_nodes() {
  NodeGroup& node = *core_->node_;
  const std::uint64_t sequence = operation_.sequence;
  if (node.is_leader()) {
    if (!calls_over()) return false;
    calls_ = {};
    const std::uint64_t mine = node.board().mine(sequence).fingerprint;
    const bool equal = fingerprints_[0] == mine && fingerprints_[1] == ~mine;
    const bool shared = fingerprints_[2] == 0;
    node.board().mine(sequence).agreed.store(
        sequence << 2U | (shared ? 2U : 0U) | (equal ? 1U : 0U), std::memory_order_release);
  }
  const std::uint64_t found = node.board().slot(0, sequence).agreed.load(std::memory_order_acquire);
  if (found >> 2U != sequence) return false;
  if ((found & 1U) == 0 && core_->options_.contract != Contract::off)
    core_->mismatch(*this, disputed_);
  // A leader that has yet to call the other leaders lets no younger collective do so first.
  if ((found & 2U) == 0 || !node.is_leader()) core_->on_their_way_ = sequence;
  if ((found & 2U) != 0) {
    phase_ = Phase::leading;
  } else {
    call();
  }
  return true;
}

void MpiWork::choose_way() {
  const NodeGroup& node = *core_->node_;
  if (goes_in_slots(operation_)) {
    perform_in_slots(node, operation_);
    phase_ = Phase::done;
  } else if (goes_in_place(node, operation_)) {
    phase_ = Phase::sharing;
  } else if (goes_by_relay(node, operation_)) {
    phase_ = Phase::relaying;
  } else {
    call();
  }
}

// Stages 2 k + 1 and 2 k + 2 of piece k: it is in the relays; its result is. Whoever has taken the
// result out may put the next piece in, since the others are done with this rank's relay.
bool MpiWork::relay() {
  if (core_->relaying_ && core_->relaying_ != this) return false;
  core_->relaying_ = this;
  const NodeGroup& node = *core_->node_;
  if (stage_ > 0 && !all_have_finished(stage_)) return false;
  const WorkTimer timer(*core_, operation_.output);
  const Block piece = relay_piece(operation_, cursor_);
  if (stage_ % 2 == 1) {
    reduce_in_relay(node, operation_, piece);
    finish_stage(stage_ + 1);
    return true;
  }
  if (stage_ > 0) {
    copy_from_relay(node, operation_, piece);
    cursor_ += piece.count;
  }
  if (cursor_ >= operation_.input.numel()) {
    core_->relaying_ = nullptr;
    phase_ = Phase::done;
    return false;
  }
  copy_to_relay(node, operation_, relay_piece(operation_, cursor_));
  finish_stage(stage_ + 1);
  return true;
}

bool MpiWork::share() {
  const WorkTimer timer(*core_, operation_.output);
  cursor_ = perform_in_place(*core_->node_, operation_, cursor_);
  if (cursor_ >= 0) return false;  // others get their turn
  finish_stage(1);
  phase_ = Phase::closing;
  return true;
}

bool MpiWork::lead() {
  NodeGroup& node = *core_->node_;
  Board& board = node.board();
  if (stage_ == 0) {
    const WorkTimer timer(*core_, operation_.output);
    cursor_ = sum_on_leader(node, operation_, cursor_);
    if (cursor_ >= 0) return false;
    finish_stage(1);
  }
  if (!node.is_leader()) {
    const auto& leader = board.slot(0, operation_.sequence);
    if (leader.delivered.load(std::memory_order_acquire) != operation_.sequence) return false;
    copy_from_leader(node, operation_);
    finish_stage(2);
    phase_ = Phase::done;
    return true;
  }
  if (calls_.requests.empty()) {
    if (!all_have_finished(1)) return false;
    Operation among_nodes = operation_;
    among_nodes.input = operation_.output;
    status_ = start_calls(among_nodes,
                          {node.leaders(), MPI_COMM_NULL, 0, 1, core_->options_.max_count}, calls_);
    core_->on_their_way_ = operation_.sequence;
    if (status_ != MPI_SUCCESS) return false;
  }
  if (!calls_over()) return false;
  if (operation_.op == ReduceOp::avg) scale(operation_.output, 1.0 / core_->size_);
  board.mine(operation_.sequence).delivered.store(operation_.sequence, std::memory_order_release);
  finish_stage(2);
  phase_ = Phase::closing;
  return true;
}

bool MpiWork::close() {
  if (!all_have_finished(stage_)) return false;
  phase_ = Phase::done;
  return true;
}

void MpiWork::finish_stage(unsigned stage) {
  stage_ = stage;
  peer_ = 0;
  core_->node_->board()
      .mine(operation_.sequence)
      .done.store(stage_mark(operation_.sequence, stage), std::memory_order_release);
}

bool MpiWork::all_have_finished(unsigned stage) {
  const NodeGroup& node = *core_->node_;
  for (; peer_ < node.size(); ++peer_) {
    const auto& theirs = node.board().slot(peer_, operation_.sequence);
    if (theirs.done.load(std::memory_order_acquire) < stage_mark(operation_.sequence, stage)) {
      return false;
    }
  }
  return true;
}

// One MPI_Test each and not MPI_Testall, which allocates a status a message to tell what failed.
bool MpiWork::calls_over() {
  bool over = true;
  for (MpiReceive& receive : calls_.receives) {
    over = is_over(receive) && over;
    if (status_ != MPI_SUCCESS || (!over && !core_->probes_)) return false;
  }
  if (!over) return false;
  // Only now, for the sake of all their senders.
  for (const MpiReceive& receive : calls_.receives) check_length(receive);
  for (MPI_Request& request : calls_.requests) {
    if (!is_over(request)) return false;
  }
  return true;
}

bool MpiWork::is_over(MPI_Request& request) {
  if (request == MPI_REQUEST_NULL) return true;
  int over = 0;
  status_ = MPI_Test(&request, &over, MPI_STATUS_IGNORE);
  return status_ == MPI_SUCCESS && over != 0;
}

bool MpiWork::is_over(MpiReceive& receive) {
  if (!core_->probes_) {
    if (receive.length < 0) status_ = receive.test();
    return receive.length >= 0;
  }
  while (receive.length < 0) {
    if (!find(receive)) return false;
  }
  return is_over(receive.request);
}

// MPI gives a message to the oldest receive that takes it. It may have come after an older one had
// looked for it, and before this one does.
bool MpiWork::find(MpiReceive& receive) {
  int there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status envelope;
  status_ = MPI_Improbe(receive.source, receive.tag, receive.comm, &there, &message, &envelope);
  if (status_ != MPI_SUCCESS || there == 0) return false;
  const std::int64_t max_count = core_->options_.max_count;
  for (MpiWork* older = core_->first_; older != this; older = older->next_) {
    for (MpiReceive& theirs : older->calls_.receives) {
      if (!theirs.takes(receive.comm, envelope)) continue;
      older->status_ = theirs.take(message, envelope, max_count);
      return true;
    }
  }
  status_ = receive.take(message, envelope, max_count);
  return status_ == MPI_SUCCESS;
}

bool MpiWork::await_calls() {
  if (!calls_over()) return false;
  finish();
  phase_ = Phase::done;
  return true;
}

void MpiWork::check_length(const MpiReceive& receive) {
  if (receive.length == receive.bytes) return;
  const bool message = operation_.is_message();
  const auto unit = message ? 1 : static_cast<std::int64_t>(size_of(operation_.output.dtype()));
  const std::int64_t expected = receive.bytes / unit;
  const std::string came =
      receive.length == MpiReceive::too_long ? "more" : std::to_string(receive.length / unit);
  if (message) {
    core_->fail(*this,
                fmt::format("a message of {} bytes came where {} were expected", came, expected));
  }
  core_->fail(*this,
              fmt::format("rank {} sent {} elements where {} were expected: receive_counts must be "
                          "what the others send",
                          receive.source, came, expected));
}

void MpiWork::finish() {
  if (operation_.kind == Kind::receive) source_ = calls_.receives.begin()->source;
  const Tensor& result = staged_output_.defined() ? staged_output_ : operation_.output;
  if (operation_.op == ReduceOp::avg && result.defined()) scale(result, 1.0 / core_->size_);
  if (!staged_output_.defined()) return;
  operation_.output.copy_from(staged_output_.to(operation_.output.dtype()));
}

bool MpiWork::poll() {
  const bool over = poll_group();
  ProgressEngine::instance().progress_others(core_.get());
  return over;
}

bool MpiWork::poll_group() {
  const auto lock = core_->lock();
  if (in_flight()) {
    core_->expect_callable();
    core_->progress();
  }
  if (phase_ == Phase::failed) core_->expect_callable();  // throws why
  return phase_ == Phase::done;
}

void MpiWork::wait() {
  const Waiting waiting(*core_);
  for (int spin = 0; spin < spins; ++spin) {
    if (poll_group()) return;
  }
  const auto start = Clock::now();
  while (!poll()) {
    if (Clock::now() - start > core_->options_.timeout) {
      const auto lock = core_->lock();
      if (in_flight()) core_->time_out(*this, seconds_since(start));
    }
    sched_yield();
  }
}

void MpiWork::release() noexcept { ObjectPool<MpiWork>::instance().recycle(this); }

}  // namespace lockstep
