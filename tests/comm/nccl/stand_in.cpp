#include <comm/nccl/stand_in.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <lockstep/comm/node/reduce_ranks.hpp>
#include <lockstep/tensor/half.hpp>

namespace lockstep::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds latency{10};  // of everything on a device

thread_local int current = 0;  // device of this thread

template <class T>
void scale_all(void* data, std::int64_t count, double factor) {
  T* const elements = static_cast<T*>(data);
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, double>) {
      elements[i] *= factor;
    } else {
      elements[i] = T(static_cast<float>(elements[i]) * static_cast<float>(factor));
    }
  }
}

}  // namespace

struct StandIn::Call {
  enum class Kind { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, receive };
  Kind kind = Kind::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // or peer
  bool over = false;

  [[nodiscard]] bool is_message() const { return kind >= Kind::send; }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(count) * size_of(dtype);
  }
  [[nodiscard]] bool meets(const Call& other) const {
    return kind == other.kind && count == other.count && dtype == other.dtype && op == other.op &&
           root == other.root;
  }
  /// Bytes from `data` that the call may read or write.
  [[nodiscard]] bool touches(const std::byte* begin, const std::byte* end, int ranks) const {
    const std::size_t in =
        kind == Kind::reduce_scatter ? bytes() * static_cast<std::size_t>(ranks) : bytes();
    const std::size_t out =
        kind == Kind::all_gather ? bytes() * static_cast<std::size_t>(ranks) : bytes();
    const auto within = [&](const void* data, std::size_t size) {
      const auto* first = static_cast<const std::byte*>(data);
      return first && first < end && begin < first + size;
    };
    return within(input, in) || within(output, out);
  }
};

struct StandIn::Kernel {
  std::vector<Call> calls;
  Queue* queue = nullptr;
  bool posted = false;
};

struct StandIn::Communicator {
  Ranks* ranks = nullptr;
  int rank = 0;
  int device = 0;
  int polls = 0;  // of in_progress that are left
  bool settled = true;
  bool finalized = false, freed = false, aborted = false;
  std::deque<std::shared_ptr<Kernel>> taken;    // by the host, not on a stream yet
  std::deque<std::shared_ptr<Kernel>> running;  // on its stream
};

struct StandIn::Ranks {
  std::uint64_t number = 0;
  int size = 0;
  std::vector<std::deque<Call*>> collectives;                        // by rank, oldest first
  std::map<std::pair<int, int>, std::deque<Call*>> sends, receives;  // by sender and receiver
};

struct StandIn::Mark {
  std::uint64_t asked = 0, reached = 0;
};

struct StandIn::Queue {
  int device = 0;
  bool gone = false;
  std::deque<std::pair<Clock::time_point, std::function<bool()>>> tasks;
};

struct StandIn::Memory {
  StandIn* owner = nullptr;
  std::vector<std::byte> bytes;
};

namespace {

/// The thread's open ncclGroup.
struct Opened {
  int depth = 0;
  NcclApi::Comm comm = nullptr;
};
thread_local Opened opened;

}  // namespace

StandIn::StandIn() : device_([this](const std::stop_token& stop) { work(stop); }) {}

StandIn::~StandIn() { end(); }

void StandIn::end() {
  let_go();
  device_.request_stop();
  if (device_.joinable()) device_.join();
}

void StandIn::let_go() {
  {
    const Lock lock(mutex_);
    let_go_ = true;
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

std::vector<std::uint64_t> StandIn::launches(int device) const {
  const Lock lock(mutex_);
  const auto found = launches_.find(device);
  return found == launches_.end() ? std::vector<std::uint64_t>{} : found->second;
}

NcclStatus StandIn::note(const std::string& name, const Lock& /*lock*/) {
  ++calls_[name];
  auto refusal = refusals_.find({name, current});
  if (refusal == refusals_.end() || refusal->second == 0) return NcclStatus::success;
  --refusal->second;
  return static_cast<NcclStatus>(4);
}

void StandIn::violate(const std::string& what, const Lock& /*lock*/) {
  violations_.push_back(what);
}

// --- the device

void StandIn::work(const std::stop_token& stop) {
  Lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (!work_once(lock)) changed_.wait_for(lock, latency);
  }
}

bool StandIn::work_once(const Lock& /*lock*/) {
  bool any = false;
  for (const auto& queue : queues_) {
    if (queue->device == stopped_device) continue;
    while (!queue->tasks.empty() && queue->tasks.front().first <= Clock::now() &&
           queue->tasks.front().second()) {
      queue->tasks.pop_front();
      any = true;
    }
  }
  if (any) changed_.notify_all();
  return any;
}

void StandIn::enqueue(Queue& queue, std::function<bool()> task, const Lock& /*lock*/) {
  queue.tasks.emplace_back(Clock::now() + latency, std::move(task));
  changed_.notify_all();
}

StandIn::Queue& StandIn::queue_of(Stream stream, const Lock& lock) {
  if (stream) {
    auto& queue = *reinterpret_cast<Queue*>(stream);
    if (queue.gone) violate("a stream was used after it was destroyed", lock);
    if (queue.device != current) violate("a stream was used on another device than its own", lock);
    return queue;
  }
  Queue*& queue = default_queues_[current];
  if (!queue) {
    queue = queues_.emplace_back(std::make_unique<Queue>()).get();
    queue->device = current;
  }
  return *queue;
}

Tensor StandIn::tensor(int device, const Shape& shape, DType dtype) {
  const Lock lock(mutex_);
  auto& memory = *memories_.emplace_back(std::make_unique<Memory>());
  memory.owner = this;
  memory.bytes.assign(static_cast<std::size_t>(shape.numel()) * size_of(dtype) + 64,
                      std::byte{0x5A});
  auto storage = Storage::borrow(memory.bytes.data(), memory.bytes.size(),
                                 {DeviceType::cuda, device}, released, &memory);
  return Tensor::over(std::move(storage), 0, shape, dtype);
}

/// The bytes themselves stay: what still uses them shows as a violation, not as a crash.
void StandIn::released(void* data, void* context) noexcept {
  auto& memory = *static_cast<Memory*>(context);
  StandIn& self = *memory.owner;
  const Lock lock(self.mutex_);
  const auto* begin = static_cast<const std::byte*>(data);
  for (const auto& comm : self.communicators_) {
    for (const auto* kernels : {&comm->taken, &comm->running}) {
      for (const auto& kernel : *kernels) {
        for (const Call& call : kernel->calls) {
          if (!comm->aborted && call.touches(begin, begin + memory.bytes.size(), comm->ranks->size))
            self.violate("memory was freed that a kernel was still to use", lock);
        }
      }
    }
  }
}

Tensor StandIn::tensor(int device, const std::vector<float>& elements) {
  Tensor t = tensor(device, {static_cast<std::int64_t>(elements.size())}, DType::f32);
  write(t, elements.data());
  return t;
}

void StandIn::write(const Tensor& t, const void* from) {
  const int before = std::exchange(current, t.device().index);
  copy(t.data(), from, t.bytes());
  current = before;
}

void StandIn::read(const Tensor& t, void* to) {
  const int before = std::exchange(current, t.device().index);
  copy(to, t.data(), t.bytes());
  current = before;
}

std::vector<float> StandIn::floats(const Tensor& t) {
  std::vector<float> elements(static_cast<std::size_t>(t.numel()));
  read(t, elements.data());
  return elements;
}

void StandIn::launch(int device, std::function<void()> kernel) {
  const Lock lock(mutex_);
  const int before = std::exchange(current, device);
  enqueue(
      queue_of(nullptr, lock),
      [kernel = std::move(kernel)] {
        kernel();
        return true;
      },
      lock);
  current = before;
}

void StandIn::copy(void* to, const void* from, std::size_t bytes) {
  Lock lock(mutex_);
  const auto over = std::make_shared<bool>(false);
  enqueue(
      queue_of(nullptr, lock),
      [=] {
        if (bytes > 0) std::memcpy(to, from, bytes);
        return *over = true;
      },
      lock);
  changed_.wait(lock, [&] { return *over; });
}

void StandIn::scale(void* data, std::int64_t count, DType dtype, double factor, Stream stream) {
  const Lock lock(mutex_);
  if (note("cublasScalEx", lock) != NcclStatus::success) throw GpuError("cublasScalEx: refused");
  enqueue(
      queue_of(stream, lock),
      [=] {
        if (dtype == DType::f64) scale_all<double>(data, count, factor);
        if (dtype == DType::f32) scale_all<float>(data, count, factor);
        if (dtype == DType::f16) scale_all<Float16>(data, count, factor);
        if (dtype == DType::bf16) scale_all<BFloat16>(data, count, factor);
        return true;
      },
      lock);
}

int StandIn::device_count() { return devices; }
int StandIn::current_device() { return current; }
void StandIn::set_device(int index) { current = index; }

NcclApi::Stream StandIn::make_stream() {
  const Lock lock(mutex_);
  Queue* queue = queues_.emplace_back(std::make_unique<Queue>()).get();
  queue->device = current;
  return reinterpret_cast<Stream>(queue);
}

void StandIn::destroy(Stream stream) noexcept {
  const Lock lock(mutex_);
  reinterpret_cast<Queue*>(stream)->gone = true;
}

NcclApi::Event StandIn::make_event() {
  const Lock lock(mutex_);
  ++calls_["cudaEventCreate"];
  auto mark = std::make_shared<Mark>();
  const auto event = reinterpret_cast<Event>(mark.get());
  marks_[event] = std::move(mark);
  return event;
}

void StandIn::destroy(Event event) noexcept {
  const Lock lock(mutex_);
  ++calls_["cudaEventDestroy"];
  marks_.erase(event);
}

void StandIn::record(Event event, Stream stream) {
  const Lock lock(mutex_);
  if (note("cudaEventRecord", lock) != NcclStatus::success) {
    throw GpuError("cudaEventRecord: refused");
  }
  const auto mark = marks_.at(event);
  enqueue(
      queue_of(stream, lock),
      [mark, generation = ++mark->asked] {
        mark->reached = generation;
        return true;
      },
      lock);
}

void StandIn::make_wait(Stream stream, Event event) {
  const Lock lock(mutex_);
  const auto mark = marks_.at(event);
  enqueue(
      queue_of(stream, lock),
      [mark, generation = mark->asked] { return mark->reached >= generation; }, lock);
}

bool StandIn::is_over(Event event) {
  const Lock lock(mutex_);
  const Mark& mark = *marks_.at(event);
  return mark.reached == mark.asked;
}

// --- NCCL

NcclStatus StandIn::make_id(NcclId& id) {
  const Lock lock(mutex_);
  ++ids_;
  std::memcpy(id.data(), &ids_, sizeof ids_);
  return note("ncclGetUniqueId", lock);
}

NcclStatus StandIn::init(Comm& comm, int size, const NcclId& id, int rank) {
  const Lock lock(mutex_);
  if (const auto status = note("ncclCommInitRankConfig", lock); status != NcclStatus::success) {
    return status;
  }
  auto& ranks = ranks_[id];
  if (!ranks) {
    ranks = std::make_unique<Ranks>();
    ranks->size = size;
    std::memcpy(&ranks->number, id.data(), sizeof ranks->number);
    ranks->collectives.resize(static_cast<std::size_t>(size));
  }
  auto& made = *communicators_.emplace_back(std::make_unique<Communicator>());
  made.ranks = ranks.get();
  made.rank = rank;
  made.device = current;
  comm = reinterpret_cast<Comm>(&made);
  return begin_settling(made, lock);
}

NcclStatus StandIn::begin_settling(Communicator& comm, const Lock& /*lock*/) {
  comm.polls = polls;
  comm.settled = comm.polls == 0 && !never_settles;
  return comm.settled ? NcclStatus::success : NcclStatus::in_progress;
}

NcclStatus StandIn::async_status(Comm handle) {
  const Lock lock(mutex_);
  auto& comm = *reinterpret_cast<Communicator*>(handle);
  if (comm.freed) violate("a communicator was asked after it was freed", lock);
  if (comm.device == device_that_fails) return static_cast<NcclStatus>(6);
  if (comm.settled) return NcclStatus::success;
  if (never_settles || comm.polls-- > 0) return NcclStatus::in_progress;
  comm.settled = true;
  start_kernel(comm, lock);
  return NcclStatus::success;
}

NcclStatus StandIn::finalize(Comm handle) {
  const Lock lock(mutex_);
  auto& comm = *reinterpret_cast<Communicator*>(handle);
  if (!comm.running.empty() || !comm.taken.empty()) {
    violate("a communicator was finalized with work in flight", lock);
  }
  comm.finalized = true;
  const NcclStatus status = note("ncclCommFinalize", lock);
  return status == NcclStatus::success ? begin_settling(comm, lock) : status;
}

void StandIn::free_communicator(Communicator& comm, const char* how, Lock& lock) {
  static_cast<void>(note(how, lock));
  if (comm.freed) violate("a communicator was freed twice", lock);
  if (comm.device != current) violate("a communicator was freed on another device", lock);
  comm.freed = true;
  if (freeing_hangs) changed_.wait(lock, [this] { return let_go_; });
}

NcclStatus StandIn::destroy(Comm handle) {
  Lock lock(mutex_);
  auto& comm = *reinterpret_cast<Communicator*>(handle);
  if (!comm.running.empty() || !comm.taken.empty()) {
    violate("a communicator was destroyed with work in flight", lock);
  }
  if (!comm.finalized) violate("a communicator was destroyed before it was finalized", lock);
  free_communicator(comm, "ncclCommDestroy", lock);
  return NcclStatus::success;
}

NcclStatus StandIn::abort(Comm handle) {
  Lock lock(mutex_);
  auto& comm = *reinterpret_cast<Communicator*>(handle);
  free_communicator(comm, "ncclCommAbort", lock);
  comm.aborted = true;
  comm.taken.clear();
  changed_.notify_all();
  return NcclStatus::success;
}

NcclStatus StandIn::group_start() {
  const Lock lock(mutex_);
  const NcclStatus status = note("ncclGroupStart", lock);
  if (status == NcclStatus::success) ++opened.depth;
  return status;
}

NcclStatus StandIn::group_end() {
  const Lock lock(mutex_);
  if (opened.depth == 0) violate("an ncclGroup was ended that was not open", lock);
  if (--opened.depth > 0) return NcclStatus::success;
  const auto comm = std::exchange(opened.comm, nullptr);
  const NcclStatus status = note("ncclGroupEnd", lock);
  if (!comm) return status;
  auto& here = *reinterpret_cast<Communicator*>(comm);
  if (status != NcclStatus::success) {
    here.taken.clear();
    return status;
  }
  const NcclStatus settling = begin_settling(here, lock);
  if (settling == NcclStatus::success) start_kernel(here, lock);
  return settling;
}

NcclStatus StandIn::add(Call&& call, const char* name, Comm handle, Stream stream) {
  const Lock lock(mutex_);
  if (const auto status = note(name, lock); status != NcclStatus::success) return status;
  auto& comm = *reinterpret_cast<Communicator*>(handle);
  if (opened.depth == 0) violate(std::string(name) + " outside of an ncclGroup", lock);
  if (opened.comm && opened.comm != handle) {
    violate(std::string(name) + " inside the open ncclGroup of another communicator", lock);
  }
  if (comm.freed || comm.finalized) violate("a communicator was used after its end", lock);
  if (!comm.settled) violate(std::string(name) + " while NCCL is still at work", lock);
  if (!opened.comm) {
    comm.taken.push_back(std::make_shared<Kernel>());
    opened.comm = handle;
  }
  Kernel& kernel = *comm.taken.back();
  kernel.queue = &queue_of(stream, lock);
  kernel.calls.push_back(std::move(call));
  return NcclStatus::success;
}

void StandIn::start_kernel(Communicator& comm, const Lock& lock) {
  while (!comm.taken.empty()) {
    const auto kernel = comm.taken.front();
    comm.taken.pop_front();
    comm.running.push_back(kernel);
    launches_[comm.device].push_back(comm.ranks->number);
    enqueue(
        *kernel->queue,
        [this, &comm, kernel] {
          const Lock held;  // the device's thread has it
          return run(comm, *kernel, held);
        },
        lock);
  }
}

bool StandIn::run(Communicator& comm, Kernel& kernel, const Lock& lock) {
  Ranks& ranks = *comm.ranks;
  if (!kernel.posted && !comm.aborted) {
    const auto holds_device = [&](const auto& other) {
      return other->device == comm.device && !other->aborted &&
             std::ranges::any_of(other->running, [](const auto& k) { return k->posted; });
    };
    if (one_kernel_at_a_time && std::ranges::any_of(communicators_, holds_device)) return false;
    kernel.posted = true;
    for (Call& call : kernel.calls) {
      if (call.kind == Call::Kind::send) ranks.sends[{comm.rank, call.root}].push_back(&call);
      if (call.kind == Call::Kind::receive) ranks.receives[{call.root, comm.rank}].push_back(&call);
      if (!call.is_message()) {
        ranks.collectives[static_cast<std::size_t>(comm.rank)].push_back(&call);
      }
    }
  }
  if (!comm.aborted) meet(ranks, lock);
  const bool over = comm.aborted || std::ranges::all_of(kernel.calls, &Call::over);
  if (!over) return false;
  if (comm.aborted) {  // the others' kernels must not find its calls
    const auto is_ours = [&](const Call* call) {
      return std::ranges::any_of(kernel.calls, [&](const Call& own) { return &own == call; });
    };
    for (auto& calls : ranks.collectives) std::erase_if(calls, is_ours);
    for (auto* ends : {&ranks.sends, &ranks.receives}) {
      for (auto& [pair, calls] : *ends) std::erase_if(calls, is_ours);
    }
  }
  std::erase_if(comm.running, [&](const auto& other) { return other.get() == &kernel; });
  return true;
}

/// Carries out what all of its ranks have come to.
void StandIn::meet(Ranks& ranks, const Lock& lock) {
  for (auto& [pair, sends] : ranks.sends) {
    auto& receives = ranks.receives[pair];
    while (!sends.empty() && !receives.empty()) {
      if (sends.front()->bytes() != receives.front()->bytes()) {
        violate("a message of another length than expected", lock);
      }
      std::memmove(receives.front()->output, sends.front()->input,
                   std::min(sends.front()->bytes(), receives.front()->bytes()));
      sends.front()->over = receives.front()->over = true;
      sends.pop_front();
      receives.pop_front();
    }
  }
  while (std::ranges::none_of(ranks.collectives, &std::deque<Call*>::empty)) {
    std::vector<Call*> all;
    for (auto& calls : ranks.collectives) all.push_back(calls.front());
    const Call& first = *all.front();
    if (!std::ranges::all_of(all, [&](const Call* call) { return call->meets(first); })) {
      if (violations_.empty()) violate("collectives met that do not fit together", lock);
      return;  // for ever
    }
    for (auto& calls : ranks.collectives) calls.pop_front();
    const std::size_t bytes = first.bytes();
    const auto at = [&](auto* data, std::size_t block) {
      using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>,
                                      const std::byte, std::byte>;
      return static_cast<Byte*>(data) + block * bytes;
    };
    const auto reduce_to = [&](void* output, std::size_t block) {
      std::vector<const void*> sources;
      for (const Call* call : all) sources.push_back(at(call->input, block));
      std::vector<std::byte> result(bytes + 8);
      void* const target = result.data();
      // A mean is for the caller to make.
      const ReduceOp op = first.op == ReduceOp::avg ? ReduceOp::sum : first.op;
      reduce_ranks(op, first.dtype, sources, first.count, std::span(&target, 1));
      if (bytes > 0) std::memcpy(output, target, bytes);
    };
    std::vector<std::vector<std::byte>> inputs;  // outputs may be the same memory
    for (std::size_t r = 0; r < all.size(); ++r) {
      Call& call = *all[r];
      switch (first.kind) {
        case Call::Kind::all_reduce:
        case Call::Kind::reduce_scatter: {
          auto& mine = inputs.emplace_back(bytes);
          reduce_to(mine.data(), first.kind == Call::Kind::all_reduce ? 0 : r);
          break;
        }
        case Call::Kind::reduce:
          if (static_cast<int>(r) == first.root) reduce_to(call.output, 0);
          break;
        case Call::Kind::broadcast:
          std::memmove(call.output, all[static_cast<std::size_t>(first.root)]->input, bytes);
          break;
        case Call::Kind::all_gather:
          for (std::size_t s = 0; s < all.size(); ++s) {
            std::memmove(at(call.output, s), all[s]->input, bytes);
          }
          break;
        default:
          break;
      }
    }
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      if (bytes > 0) std::memcpy(all[r]->output, inputs[r].data(), bytes);
    }
    for (Call* call : all) call->over = true;
  }
}

bool StandIn::is_quiet_within(std::chrono::milliseconds patience) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] {
    return std::ranges::all_of(
        communicators_, [](const auto& c) { return c->running.empty() && c->taken.empty(); });
  });
}

NcclStatus StandIn::all_reduce(const void* input, void* output, std::int64_t count, DType dtype,
                               ReduceOp op, Comm comm, Stream stream) {
  return add({Call::Kind::all_reduce, input, output, count, dtype, op}, "ncclAllReduce", comm,
             stream);
}
NcclStatus StandIn::reduce(const void* input, void* output, std::int64_t count, DType dtype,
                           ReduceOp op, int root, Comm comm, Stream stream) {
  return add({Call::Kind::reduce, input, output, count, dtype, op, root}, "ncclReduce", comm,
             stream);
}
NcclStatus StandIn::broadcast(const void* input, void* output, std::int64_t count, DType dtype,
                              int root, Comm comm, Stream stream) {
  return add({Call::Kind::broadcast, input, output, count, dtype, ReduceOp::sum, root},
             "ncclBroadcast", comm, stream);
}
NcclStatus StandIn::all_gather(const void* input, void* output, std::int64_t count, DType dtype,
                               Comm comm, Stream stream) {
  return add({Call::Kind::all_gather, input, output, count, dtype}, "ncclAllGather", comm, stream);
}
NcclStatus StandIn::reduce_scatter(const void* input, void* output, std::int64_t count, DType dtype,
                                   ReduceOp op, Comm comm, Stream stream) {
  return add({Call::Kind::reduce_scatter, input, output, count, dtype, op}, "ncclReduceScatter",
             comm, stream);
}
NcclStatus StandIn::send(const void* input, std::int64_t count, DType dtype, int peer, Comm comm,
                         Stream stream) {
  return add({Call::Kind::send, input, nullptr, count, dtype, ReduceOp::sum, peer}, "ncclSend",
             comm, stream);
}
NcclStatus StandIn::receive(void* output, std::int64_t count, DType dtype, int peer, Comm comm,
                            Stream stream) {
  return add({Call::Kind::receive, nullptr, output, count, dtype, ReduceOp::sum, peer}, "ncclRecv",
             comm, stream);
}

std::string StandIn::error_text(NcclStatus status, Comm /*comm*/) {
  return "NCCL status " + std::to_string(static_cast<int>(status));
}

}  // namespace lockstep::test
