#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <lockstep/comm/nccl/api.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::test {

/// NCCL for simulated devices, whose ranks are threads or processes of this machine. Its work runs
/// on the given stream, late and in order, and meets the other ranks' calls when the stream reaches
/// it; until these have arrived, the stream does not continue. It injects the requested faults
/// (never to end, to fail) and notes every use that NCCL would not allow.
class StandIn final : public NcclApi, public std::enable_shared_from_this<StandIn> {
 public:
  StandIn() = default;
  ~StandIn() override;

  // The script. Set before ranks start, or by the rank concerned.
  std::atomic<int> polls = 0;  ///< of in_progress, after init, split, group_end and finalize
  std::atomic<bool> never_settles = false;  ///< these stay in progress for ever
  std::atomic<bool> freeing_hangs = false;  ///< destroy and abort return with the StandIn's end
  std::atomic<int> device_that_fails = -1;  ///< its communicators report remote errors
  std::atomic<int> stopped_device = -1;     ///< runs no NCCL kernel, as if its process were gone
  std::atomic<bool> has_split = true;       ///< it is as new as that
  std::atomic<bool> may_misfit = false;     ///< calls that do not fit together are no violation
  /// The next call of that name ("ncclSend") for a communicator of that device is refused.
  void refuse(const std::string& call, int device);
  /// Hanging calls return, and all kernels end.
  void end();

  // The observations.
  [[nodiscard]] int calls(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> violations() const;
  /// The order of a device's kernels by communicator: names of communicators.
  [[nodiscard]] std::vector<std::string> launches(int device) const;
  /// Waits until the kernels of all communicators have ended.
  [[nodiscard]] bool is_quiet_within(std::chrono::milliseconds patience);

  [[nodiscard]] DeviceType device_type() const noexcept override { return DeviceType::sim; }
  NcclStatus make_id(NcclId& id) override;
  NcclStatus init(Comm& comm, int size, const NcclId& id, int rank, int device) override;
  [[nodiscard]] bool can_split() const noexcept override { return has_split; }
  NcclStatus split(Comm parent, int colour, int key, Comm& part) override;
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
  using Lock = std::unique_lock<std::mutex>;

  [[nodiscard]] Communicator& known(Comm comm, const Lock& lock);
  Comm add_communicator(std::string folder, int size, int rank, int device, const Lock& lock);
  NcclStatus note(const std::string& name, int device, const Lock& lock);
  void violate(const std::string& what, const Lock& lock);
  NcclStatus add(Call&& call, const char* name, Comm comm, Stream stream);
  [[nodiscard]] NcclStatus begin_settling(Communicator& comm, const Lock& lock);
  [[nodiscard]] bool go_on_with_split(Communicator& parent, const Lock& lock);
  void start_kernels(Communicator& comm, Lock& lock);
  [[nodiscard]] bool has_come(const Communicator& comm, Kernel& kernel);
  void free_communicator(Communicator& comm, const char* how, Lock& lock);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::map<std::string, int> calls_;
  std::map<std::pair<std::string, int>, int> refusals_;
  std::vector<std::string> violations_;
  std::map<int, std::vector<std::string>> launches_;  // by device
  std::map<Comm, std::shared_ptr<Communicator>> communicators_;
};

}  // namespace lockstep::test
