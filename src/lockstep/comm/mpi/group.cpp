#include <lockstep/comm/mpi_group.hpp>

#include <lockstep/comm/mpi/core.hpp>
#include <lockstep/comm/mpi/lifetime.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {
namespace {

/// The public interface of an MpiCore. The destructor does nothing: mpi_lifetime owns the core.
class MpiGroup final : public ProcessGroup {
 public:
  explicit MpiGroup(IntrusivePtr<MpiCore> core) : core_(std::move(core)) {}

  [[nodiscard]] int rank() const noexcept override { return core_->rank(); }
  [[nodiscard]] int size() const noexcept override { return core_->size(); }
  [[nodiscard]] const char* backend() const noexcept override { return "mpi"; }

  [[nodiscard]] Tensor shared_buffer(const Shape& shape, DType dtype) override {
    const auto bytes = static_cast<std::size_t>(shape.numel()) * lockstep::size_of(dtype);
    auto t = Tensor::over(core_->allocate_shared(bytes), 0, shape, dtype);
    t.zero();
    return t;
  }
  [[nodiscard]] WaitTimes wait_times() const noexcept override { return core_->clock().times(); }

  /// A group whose core lives until close() or the end of MPI.
  static std::shared_ptr<ProcessGroup> owned(IntrusivePtr<MpiCore> core) {
    adopt(core);
    core->join_engine();
    return std::make_shared<MpiGroup>(std::move(core));
  }

 private:
  [[nodiscard]] Work start(Operation&& operation) override {
    return core_->start(std::move(operation));
  }
  void enable_wakeup(std::chrono::microseconds awake, bool by_datagrams) override {
    core_->enable_wakeup(awake, by_datagrams);
  }
  void release() override { core_->close(); }
  void take_name(const std::string& name) override { core_->take_name(name); }
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_subgroup(std::span<const int> members) override {
    return members.empty() ? nullptr : owned(core_->subgroup({members.begin(), members.end()}));
  }

  IntrusivePtr<MpiCore> core_;
};

}  // namespace

std::shared_ptr<ProcessGroup> make_mpi_group(MPI_Comm comm, const GroupOptions& options) {
  return MpiGroup::owned(IntrusivePtr<MpiCore>(new MpiCore(comm, options)));
}

}  // namespace lockstep
