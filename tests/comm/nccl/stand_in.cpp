#include <comm/nccl/stand_in.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include <comm/nccl/mailboxes.hpp>
#include <lockstep/comm/node/reduce_ranks.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>

namespace lockstep::test {
namespace {

constexpr auto refused = static_cast<NcclStatus>(4), remote_error = static_cast<NcclStatus>(6);

/// The thread's open ncclGroup.
struct Opened {
  int depth = 0;
  bool has_failed = false;
  NcclApi::Comm comm = nullptr;
};
thread_local Opened opened;

/// A rank's arguments of a split.
struct Place {
  int colour, key;
};

std::byte* for_kernels(const void* data) {
  auto* const address = const_cast<void*>(data);
  return static_cast<std::byte*>(SimulatedRuntime::instance().kernel_address(address));
}

template <class T>
T from_bytes(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

struct StandIn::Call {
  enum class Kind : int {
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    send,
    receive
  };
  /// The common header of matching calls; the bytes begin after it.
  struct Head {
    Kind kind = Kind::all_reduce;
    DType dtype = DType::f32;
    int root = 0;  // or peer
    std::int64_t count = 0;

    [[nodiscard]] std::size_t bytes() const {
      return static_cast<std::size_t>(count) * size_of(dtype);
    }
    [[nodiscard]] bool meets(const Head& other) const {
      return kind == other.kind && bytes() == other.bytes() && root == other.root;
    }
  };
  static constexpr std::size_t head_bytes = 64;

  Head head;
  ReduceOp op = ReduceOp::sum;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  int number = 0;  // of the communicator's collectives; of its messages to or from the peer

  [[nodiscard]] bool is_message() const { return head.kind >= Kind::send; }
  /// This rank's input.
  [[nodiscard]] std::size_t brought(int rank, int size) const {
    switch (head.kind) {
      case Kind::reduce_scatter:
        return head.bytes() * static_cast<std::size_t>(size);
      case Kind::broadcast:
        return rank == head.root ? head.bytes() : 0;
      case Kind::receive:
        return 0;
      default:
        return head.bytes();
    }
  }
  [[nodiscard]] std::string box(int from, int to) const {
    const std::string end = std::to_string(number) + "." + std::to_string(from);
    return is_message() ? "m" + end + "." + std::to_string(to) : "c" + end;
  }
};

struct StandIn::Kernel {
  std::vector<Call> calls;
  RuntimeStream* stream = nullptr;
  int place = 0;              // among the communicator's
  std::optional<bool> meets;  // once all have come: whether it fits theirs; else it never ends
};

struct StandIn::Communicator {
  Mailboxes boxes{""};
  std::string name;
  int rank = 0, size = 0, device = 0;
  int polls = 0;  // of in_progress that are left
  bool settled = true;
  bool finalized = false, freed = false;
  std::atomic<bool> aborted = false;
  int collectives = 0, splits = 0;
  std::map<int, int> sent, received;          // by peer
  std::deque<std::shared_ptr<Kernel>> taken;  // by the host, not on a stream yet
  int running = 0;                            // on its streams
  int kernels = 0;                            // so far
  std::atomic<int> ended = 0;                 // of these: NCCL's keep their order on all streams
  std::vector<std::string> read_by_all;       // its boxes, once all ranks have gone on
  struct Split {
    int number, colour;
    Comm* part;
  };
  std::unique_ptr<Split> split;

  /// An abort may come in the middle of it, and the mailboxes may go.
  template <class F>
  void unless_aborted(F&& part) const {
    try {
      if (!aborted) part();
    } catch (const std::exception&) {
      if (!aborted) throw;
    }
  }
  void bring(const Kernel& kernel) const;
  void carry_out(const Kernel& kernel);
  void reduce(const Call& call, std::size_t block, void* output) const;
};

StandIn::~StandIn() { end(); }

void StandIn::end() {
  {
    const Lock lock(mutex_);
    is_over_ = true;
    for (const auto& [handle, comm] : communicators_) comm->aborted = true;
  }
  changed_.notify_all();
}

void StandIn::refuse(const std::string& call, int device) {
  const Lock lock(mutex_);
  ++refusals_[{call, device}];
}

int StandIn::calls(const std::string& name) const {
  const Lock lock(mutex_);
  const auto found = calls_.find(name);
  return found == calls_.end() ? 0 : found->second;
}

std::vector<std::string> StandIn::violations() const {
  const Lock lock(mutex_);
  return violations_;
}

std::vector<std::string> StandIn::launches(int device) const {
  const Lock lock(mutex_);
  const auto found = launches_.find(device);
  return found == launches_.end() ? std::vector<std::string>{} : found->second;
}

NcclStatus StandIn::note(const std::string& name, int device, const Lock& /*lock*/) {
  ++calls_[name];
  auto refusal = refusals_.find({name, device});
  if (refusal == refusals_.end() || refusal->second == 0) return NcclStatus::success;
  --refusal->second;
  return refused;
}

void StandIn::violate(const std::string& what, const Lock& /*lock*/) {
  violations_.push_back(what);
}

StandIn::Communicator& StandIn::known(Comm comm, const Lock& lock) {
  Communicator& known = *communicators_.at(comm);
  if (known.freed) violate("a communicator was used after it was freed", lock);
  return known;
}

// --- communicators

NcclStatus StandIn::make_id(NcclId& id) {
  const Lock lock(mutex_);
  const Mailboxes boxes = Mailboxes::make();
  id.fill('\0');
  std::ranges::copy(boxes.folder(), id.begin());
  return note("ncclGetUniqueId", -1, lock);
}

NcclApi::Comm StandIn::add_communicator(std::string folder, int size, int rank, int device,
                                        const Lock& /*lock*/) {
  auto made = std::make_shared<Communicator>();
  made->name = folder;
  made->boxes = Mailboxes(std::move(folder));
  made->rank = rank;
  made->size = size;
  made->device = device;
  const Comm comm = reinterpret_cast<Comm>(made.get());
  communicators_[comm] = std::move(made);
  return comm;
}

NcclStatus StandIn::init(Comm& comm, int size, const NcclId& id, int rank, int device) {
  const Lock lock(mutex_);
  const NcclStatus status = note("ncclCommInitRankConfig", device, lock);
  if (status != NcclStatus::success) return status;
  comm = add_communicator(id.data(), size, rank, device, lock);
  return begin_settling(known(comm, lock), lock);
}

NcclStatus StandIn::split(Comm handle, int colour, int key, Comm& part) {
  const Lock lock(mutex_);
  Communicator& parent = known(handle, lock);
  const NcclStatus status = note("ncclCommSplit", parent.device, lock);
  if (status != NcclStatus::success) return status;
  if (parent.running > 0 || !parent.taken.empty()) {
    violate("a communicator was split with work in flight", lock);
  }
  if (!parent.settled) violate("ncclCommSplit while NCCL is still at work", lock);
  parent.split = std::make_unique<Communicator::Split>(parent.splits++, colour, &part);
  const Place mine{colour, key};
  parent.boxes.put("s" + std::to_string(parent.split->number) + "." + std::to_string(parent.rank),
                   std::as_bytes(std::span(&mine, 1)));
  static_cast<void>(begin_settling(parent, lock));
  parent.settled = false;
  return NcclStatus::in_progress;
}

/// True when all ranks have reached it; then the part exists.
bool StandIn::go_on_with_split(Communicator& parent, const Lock& lock) {
  const auto& split = *parent.split;
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int r = 0; r < parent.size; ++r) {
    const std::string box = "s" + std::to_string(split.number) + "." + std::to_string(r);
    if (!parent.boxes.has(box)) return false;
    const auto [colour, key] = from_bytes<Place>(parent.boxes.read(box));
    if (colour == split.colour) members.emplace_back(key, r);
  }
  if (split.colour >= 0) {
    std::ranges::sort(members);
    const auto mine = std::ranges::find(members, parent.rank, &std::pair<int, int>::second);
    const Mailboxes boxes = parent.boxes.beside("s" + std::to_string(split.number) + "." +
                                                std::to_string(split.colour));
    *split.part = add_communicator(boxes.folder(), static_cast<int>(members.size()),
                                   static_cast<int>(mine - members.begin()), parent.device, lock);
  }
  parent.split = nullptr;
  return true;
}

NcclStatus StandIn::begin_settling(Communicator& comm, const Lock& /*lock*/) {
  comm.polls = polls;
  comm.settled = comm.polls == 0 && !never_settles;
  return comm.settled ? NcclStatus::success : NcclStatus::in_progress;
}

NcclStatus StandIn::async_status(Comm handle) {
  Lock lock(mutex_);
  ++calls_["ncclCommGetAsyncError"];
  Communicator& comm = known(handle, lock);
  if (comm.device == device_that_fails) return remote_error;
  if (comm.settled) return NcclStatus::success;
  if (never_settles || comm.polls-- > 0) return NcclStatus::in_progress;
  if (comm.split && !go_on_with_split(comm, lock)) return NcclStatus::in_progress;
  comm.settled = true;
  start_kernels(comm, lock);
  return NcclStatus::success;
}

NcclStatus StandIn::finalize(Comm handle) {
  const Lock lock(mutex_);
  Communicator& comm = known(handle, lock);
  if (comm.running > 0 || !comm.taken.empty()) {
    violate("a communicator was finalized with work in flight", lock);
  }
  comm.finalized = true;
  const NcclStatus status = note("ncclCommFinalize", comm.device, lock);
  return status == NcclStatus::success ? begin_settling(comm, lock) : status;
}

void StandIn::free_communicator(Communicator& comm, const char* how, Lock& lock) {
  static_cast<void>(note(how, comm.device, lock));
  comm.freed = true;
  if (freeing_hangs) changed_.wait(lock, [this] { return is_over_; });
  comm.aborted = true;  // before its mailboxes go: a kernel may still be at them
  comm.boxes.leave(comm.rank, comm.size);
}

NcclStatus StandIn::destroy(Comm handle) {
  Lock lock(mutex_);
  Communicator& comm = known(handle, lock);
  if (comm.running > 0 || !comm.taken.empty()) {
    violate("a communicator was destroyed with work in flight", lock);
  }
  free_communicator(comm, "ncclCommDestroy", lock);
  return NcclStatus::success;
}

NcclStatus StandIn::abort(Comm handle) {
  Lock lock(mutex_);
  Communicator& comm = known(handle, lock);
  comm.taken.clear();
  free_communicator(comm, "ncclCommAbort", lock);
  return NcclStatus::success;
}

// --- calls

NcclStatus StandIn::group_start() {
  const Lock lock(mutex_);
  const NcclStatus status = note("ncclGroupStart", -1, lock);
  if (status == NcclStatus::success) ++opened.depth;
  return status;
}

NcclStatus StandIn::group_end() {
  Lock lock(mutex_);
  if (opened.depth == 0) violate("an ncclGroup was ended that was not open", lock);
  if (--opened.depth > 0) return NcclStatus::success;
  const Comm handle = std::exchange(opened.comm, nullptr);
  if (!handle) {
    opened.has_failed = false;
    return note("ncclGroupEnd", -1, lock);
  }
  Communicator& comm = known(handle, lock);
  const bool has_failed = std::exchange(opened.has_failed, false);
  const NcclStatus status = note("ncclGroupEnd", comm.device, lock);
  if (has_failed || status != NcclStatus::success) {
    comm.taken.clear();
    return refused;
  }
  const NcclStatus settling = begin_settling(comm, lock);
  if (settling == NcclStatus::success) start_kernels(comm, lock);
  return settling;
}

NcclStatus StandIn::add(Call&& call, const char* name, Comm handle, Stream stream) {
  const Lock lock(mutex_);
  Communicator& comm = known(handle, lock);
  if (const auto status = note(name, comm.device, lock); status != NcclStatus::success) {
    opened.has_failed = true;
    return status;
  }
  if (opened.depth == 0) violate(std::string(name) + " outside of an ncclGroup", lock);
  if (opened.comm && opened.comm != handle) {
    violate(std::string(name) + " inside the open ncclGroup of another communicator", lock);
  }
  if (comm.finalized) violate("a communicator was used after its end", lock);
  if (!comm.settled) violate(std::string(name) + " while NCCL is still at work", lock);
  const int peer = call.head.root;
  call.number = call.head.kind == Call::Kind::send      ? comm.sent[peer]++
                : call.head.kind == Call::Kind::receive ? comm.received[peer]++
                                                        : comm.collectives++;
  if (!opened.comm) {
    comm.taken.push_back(std::make_shared<Kernel>());
    opened.comm = handle;
  }
  Kernel& kernel = *comm.taken.back();
  kernel.stream = reinterpret_cast<RuntimeStream*>(stream);
  kernel.calls.push_back(std::move(call));
  return NcclStatus::success;
}

/// Two parts each, because the stream must not wait for others before they can read this rank's
/// input. Without the lock, which the runtime's thread takes.
void StandIn::start_kernels(Communicator& comm, Lock& lock) {
  const auto self = shared_from_this();
  const auto here = communicators_.at(reinterpret_cast<Comm>(&comm));
  const auto started = std::exchange(comm.taken, {});
  for (std::size_t k = 0; k < started.size(); ++k) launches_[comm.device].push_back(comm.name);
  comm.running += static_cast<int>(started.size());
  for (const auto& kernel : started) kernel->place = comm.kernels++;
  lock.unlock();
  auto& runtime = SimulatedRuntime::instance();
  const auto is_on = [self, here] { return here->device != self->stopped_device; };
  for (const auto& kernel : started) {
    runtime.launch_when(
        kernel->stream, "nccl",
        [here, kernel, is_on] {
          return here->aborted || (is_on() && here->ended == kernel->place);
        },
        LateCall::of([here, kernel] { here->unless_aborted([&] { here->bring(*kernel); }); }));
    runtime.launch_when(
        kernel->stream, "nccl",
        [self, here, kernel, is_on] {
          bool begins = false;
          here->unless_aborted([&] { begins = is_on() && self->has_come(*here, *kernel); });
          return begins || here->aborted;
        },
        LateCall::of([self, here, kernel] {
          here->unless_aborted([&] { here->carry_out(*kernel); });
          {
            const Lock locked(self->mutex_);
            --here->running;
            ++here->ended;
          }
          self->changed_.notify_all();
        }));
  }
}

void StandIn::Communicator::bring(const Kernel& kernel) const {
  for (const Call& call : kernel.calls) {
    if (call.head.kind == Call::Kind::receive) continue;
    std::vector<std::byte> bytes(Call::head_bytes);
    std::memcpy(bytes.data(), &call.head, sizeof call.head);
    const std::size_t more = call.brought(rank, size);
    if (more > 0) bytes.insert(bytes.end(), call.input, call.input + more);
    boxes.put(call.box(rank, call.head.root), bytes);
  }
}

bool StandIn::has_come(const Communicator& comm, Kernel& kernel) {
  if (kernel.meets) return *kernel.meets;
  std::vector<std::pair<const Call*, std::string>> awaited;
  for (const Call& call : kernel.calls) {
    if (call.head.kind == Call::Kind::receive) {
      awaited.emplace_back(&call, call.box(call.head.root, comm.rank));
    } else if (!call.is_message()) {
      for (int r = 0; r < comm.size; ++r) awaited.emplace_back(&call, call.box(r, 0));
    }
  }
  const auto is_there = [&](const auto& entry) { return comm.boxes.has(entry.second); };
  if (!std::ranges::all_of(awaited, is_there)) return false;
  kernel.meets = std::ranges::all_of(awaited, [&](const auto& entry) {
    const Call& call = *entry.first;
    const auto theirs = from_bytes<Call::Head>(comm.boxes.read(entry.second));
    return call.is_message() ? theirs.bytes() == call.head.bytes() : call.head.meets(theirs);
  });
  const Lock lock(mutex_);
  if (!*kernel.meets && !may_misfit) violate("calls met that do not fit together", lock);
  return *kernel.meets;
}

void StandIn::Communicator::reduce(const Call& call, std::size_t block, void* output) const {
  std::vector<std::vector<std::byte>> brought;
  std::vector<const void*> sources;
  for (int r = 0; r < size; ++r) brought.push_back(boxes.read(call.box(r, 0)));
  for (const auto& box : brought) {
    sources.push_back(box.data() + Call::head_bytes + block * call.head.bytes());
  }
  // A mean is for the caller to make.
  const ReduceOp op = call.op == ReduceOp::avg ? ReduceOp::sum : call.op;
  reduce_ranks(op, call.head.dtype, sources, call.head.count, std::span(&output, 1));
}

void StandIn::Communicator::carry_out(const Kernel& kernel) {
  using Kind = Call::Kind;
  for (const std::string& box : std::exchange(read_by_all, {})) boxes.forget(box);
  for (const Call& call : kernel.calls) {
    const std::size_t bytes = call.head.bytes();
    const auto take = [&](const std::string& box, std::byte* to) {
      const auto all = boxes.read(box);
      if (bytes > 0) std::memcpy(to, all.data() + Call::head_bytes, bytes);
    };
    switch (call.head.kind) {
      case Kind::all_reduce:
        reduce(call, 0, call.output);
        break;
      case Kind::reduce_scatter:
        reduce(call, static_cast<std::size_t>(rank), call.output);
        break;
      case Kind::reduce:
        if (rank == call.head.root) reduce(call, 0, call.output);
        break;
      case Kind::broadcast:
        take(call.box(call.head.root, 0), call.output);
        break;
      case Kind::all_gather:
        for (int r = 0; r < size; ++r) {
          take(call.box(r, 0), call.output + static_cast<std::size_t>(r) * bytes);
        }
        break;
      case Kind::receive:
        take(call.box(call.head.root, rank), call.output);
        boxes.forget(call.box(call.head.root, rank));
        break;
      case Kind::send:
        break;
    }
    if (!call.is_message()) read_by_all.push_back(call.box(rank, 0));
  }
}

bool StandIn::is_quiet_within(std::chrono::milliseconds patience) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] {
    return std::ranges::all_of(communicators_, [](const auto& entry) {
      return entry.second->running == 0 && entry.second->taken.empty();
    });
  });
}

NcclStatus StandIn::all_reduce(const void* input, void* output, std::int64_t count, DType dtype,
                               ReduceOp op, Comm comm, Stream stream) {
  return add(
      {{Call::Kind::all_reduce, dtype, 0, count}, op, for_kernels(input), for_kernels(output)},
      "ncclAllReduce", comm, stream);
}
NcclStatus StandIn::reduce(const void* input, void* output, std::int64_t count, DType dtype,
                           ReduceOp op, int root, Comm comm, Stream stream) {
  return add(
      {{Call::Kind::reduce, dtype, root, count}, op, for_kernels(input), for_kernels(output)},
      "ncclReduce", comm, stream);
}
NcclStatus StandIn::broadcast(const void* input, void* output, std::int64_t count, DType dtype,
                              int root, Comm comm, Stream stream) {
  return add({{Call::Kind::broadcast, dtype, root, count},
              ReduceOp::sum,
              for_kernels(input),
              for_kernels(output)},
             "ncclBroadcast", comm, stream);
}
NcclStatus StandIn::all_gather(const void* input, void* output, std::int64_t count, DType dtype,
                               Comm comm, Stream stream) {
  return add({{Call::Kind::all_gather, dtype, 0, count},
              ReduceOp::sum,
              for_kernels(input),
              for_kernels(output)},
             "ncclAllGather", comm, stream);
}
NcclStatus StandIn::reduce_scatter(const void* input, void* output, std::int64_t count, DType dtype,
                                   ReduceOp op, Comm comm, Stream stream) {
  return add(
      {{Call::Kind::reduce_scatter, dtype, 0, count}, op, for_kernels(input), for_kernels(output)},
      "ncclReduceScatter", comm, stream);
}
NcclStatus StandIn::send(const void* input, std::int64_t count, DType dtype, int peer, Comm comm,
                         Stream stream) {
  return add({{Call::Kind::send, dtype, peer, count}, ReduceOp::sum, for_kernels(input), nullptr},
             "ncclSend", comm, stream);
}
NcclStatus StandIn::receive(void* output, std::int64_t count, DType dtype, int peer, Comm comm,
                            Stream stream) {
  return add(
      {{Call::Kind::receive, dtype, peer, count}, ReduceOp::sum, nullptr, for_kernels(output)},
      "ncclRecv", comm, stream);
}

std::string StandIn::error_text(NcclStatus status, Comm /*comm*/) {
  return "NCCL status " + std::to_string(static_cast<int>(status));
}

}  // namespace lockstep::test
