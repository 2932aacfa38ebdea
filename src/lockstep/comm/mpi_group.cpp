#include <lockstep/comm/mpi_group.hpp>

#include <lockstep/comm/mpi_core.hpp>
#include <lockstep/comm/mpi_lifetime.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {
namespace {

/// The public face of an MpiCore. Its destructor has nothing to do: mpi_lifetime owns the core.
class MpiGroup final : public ProcessGroup {
 public:
  explicit MpiGroup(IntrusivePtr<MpiCore> core) : core_(std::move(core)) {}

  [[nodiscard]] int rank() const noexcept override { return core_->rank(); }
  [[nodiscard]] int size() const noexcept override { return core_->size(); }
  [[nodiscard]] const char* backend() const noexcept override { return "mpi"; }

  [[nodiscard]] Work all_reduce(const Tensor& t, ReduceOp op) override {
    return core_->start(all_reduce_operation(t, op));
  }
  [[nodiscard]] Work broadcast(const Tensor& t, int root) override {
    return core_->start(broadcast_operation(t, root, size()));
  }
  [[nodiscard]] Work all_gather(const Tensor& input, const Tensor& output) override {
    return core_->start(all_gather_operation(input, output, size()));
  }
  void barrier() override { core_->start(Operation{}).wait(); }
  void close() override { core_->close(); }

 private:
  IntrusivePtr<MpiCore> core_;
};

}  // namespace

std::shared_ptr<ProcessGroup> make_mpi_group(MPI_Comm comm, const GroupOptions& options) {
  IntrusivePtr<MpiCore> core(new MpiCore(comm, options));
  adopt(core);
  return std::make_shared<MpiGroup>(std::move(core));
}

}  // namespace lockstep
