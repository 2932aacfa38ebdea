#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/comm/nccl/api.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::test {

/// GPUs and NCCL for ranks that are threads of this process: streams are queues that a thread works
/// off, a little later than they are filled, so that a missing wait shows as wrong data;
/// collectives are really carried out, on memory of the host that says it is a device's. It does
/// what it is told (not to come to an end, to fail) and notes every use that the real ones would
/// not forgive.
class StandIn final : public NcclApi {
 public:
  StandIn();
  ~StandIn() override;

  // The script. Set before ranks start, or by the rank concerned.
  std::atomic<int> polls = 0;               ///< of in_progress, after init, group_end and finalize
  std::atomic<bool> never_settles = false;  ///< these stay in progress for ever
  std::atomic<bool> freeing_hangs = false;  ///< destroy and abort return with the StandIn's end
  std::atomic<int> device_that_fails = -1;  ///< its communicators report remote errors
  std::atomic<int> stopped_device = -1;     ///< runs nothing any more, as if its process were gone
  std::atomic<int> devices = 16;
  /// A device has room for one communicator's kernel, which stays until its peers have come.
  std::atomic<bool> one_kernel_at_a_time = false;
  /// The next call of that name ("ncclSend") by a rank on that device is refused.
  void refuse(const std::string& call, int device);
  /// Lets what hangs return.
  void let_go();
  /// The devices stop. Communicators that failed are kept for the life of the process, and this
  /// with them; its thread is not.
  void end();

  // Memory and kernels of a device.
  [[nodiscard]] Tensor tensor(int device, const Shape& shape, DType dtype);
  [[nodiscard]] Tensor tensor(int device, const std::vector<float>& elements);
  void write(const Tensor& t, const void* from);
  void read(const Tensor& t, void* to);  ///< behind the device's default stream; blocks
  [[nodiscard]] std::vector<float> floats(const Tensor& t);
  /// Enqueues on the default stream.
  void launch(int device, std::function<void()> kernel);

  // What was seen.
  [[nodiscard]] int calls(const std::string& name) const;
  [[nodiscard]] int events_made() const { return calls("cudaEventCreate"); }
  [[nodiscard]] std::vector<std::string> violations() const;
  /// Whose kernels a device was given, one after the other: numbers of unique IDs.
  [[nodiscard]] std::vector<std::uint64_t> launches(int device) const;
  /// Waits until the kernels of all communicators have ended.
  [[nodiscard]] bool is_quiet_within(std::chrono::milliseconds patience);

  int device_count() override;
  int current_device() override;
  void set_device(int index) override;
  Stream make_stream() override;
  void destroy(Stream stream) noexcept override;
  Event make_event() override;
  void destroy(Event event) noexcept override;
  void record(Event event, Stream stream) override;
  void make_wait(Stream stream, Event event) override;
  bool is_over(Event event) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void scale(void* data, std::int64_t count, DType dtype, double factor, Stream stream) override;
  NcclStatus make_id(NcclId& id) override;
  NcclStatus init(Comm& comm, int size, const NcclId& id, int rank) override;
  NcclStatus async_status(Comm comm) override;
  NcclStatus finalize(Comm comm) override;
  NcclStatus destroy(Comm comm) override;
  NcclStatus abort(Comm comm) override;
  NcclStatus group_start() override;
  NcclStatus group_end() override;
  NcclStatus all_reduce(const void* input, void* output, std::int64_t count, DType dtype,
                        ReduceOp op, Comm comm, Stream stream) override;
  NcclStatus reduce(const void* input, void* output, std::int64_t count, DType dtype, ReduceOp op,
                    int root, Comm comm, Stream stream) override;
  NcclStatus broadcast(const void* input, void* output, std::int64_t count, DType dtype, int root,
                       Comm comm, Stream stream) override;
  NcclStatus all_gather(const void* input, void* output, std::int64_t count, DType dtype, Comm comm,
                        Stream stream) override;
  NcclStatus reduce_scatter(const void* input, void* output, std::int64_t count, DType dtype,
                            ReduceOp op, Comm comm, Stream stream) override;
  NcclStatus send(const void* input, std::int64_t count, DType dtype, int peer, Comm comm,
                  Stream stream) override;
  NcclStatus receive(void* output, std::int64_t count, DType dtype, int peer, Comm comm,
                     Stream stream) override;
  std::string error_text(NcclStatus status, Comm comm) override;

 private:
  struct Call;    // one within a group
  struct Kernel;  // a group's calls on one communicator
  struct Communicator;
  struct Ranks;  // the communicators of one unique ID
  struct Mark;   // an event
  struct Queue;  // a stream
  struct Memory;
  using Lock = std::unique_lock<std::mutex>;

  void work(const std::stop_token& stop);
  bool work_once(const Lock& lock);
  void enqueue(Queue& queue, std::function<bool()> task, const Lock& lock);
  [[nodiscard]] Queue& queue_of(Stream stream, const Lock& lock);
  NcclStatus note(const std::string& name, const Lock& lock);
  void violate(const std::string& what, const Lock& lock);
  NcclStatus add(Call&& call, const char* name, Comm comm, Stream stream);
  [[nodiscard]] NcclStatus begin_settling(Communicator& comm, const Lock& lock);
  void start_kernel(Communicator& comm, const Lock& lock);
  bool run(Communicator& comm, Kernel& kernel, const Lock& lock);
  void meet(Ranks& ranks, const Lock& lock);
  void free_communicator(Communicator& comm, const char* how, Lock& lock);
  static void released(void* data, void* context) noexcept;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool let_go_ = false;
  std::map<std::string, int> calls_;
  std::map<std::pair<std::string, int>, int> refusals_;
  std::vector<std::string> violations_;
  std::map<int, std::vector<std::uint64_t>> launches_;  // by device
  std::vector<std::unique_ptr<Queue>> queues_;
  std::map<int, Queue*> default_queues_;  // by device
  std::map<Event, std::shared_ptr<Mark>> marks_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::map<NcclId, std::unique_ptr<Ranks>> ranks_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::uint64_t ids_ = 0;
  std::jthread device_;  // last: it uses the rest
};

}  // namespace lockstep::test
