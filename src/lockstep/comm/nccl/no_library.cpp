#include <lockstep/base/error.hpp>
#include <lockstep/comm/nccl/api.hpp>
#include <lockstep/comm/nccl_group.hpp>

namespace lockstep {

bool has_nccl() noexcept { return false; }

std::shared_ptr<NcclApi> nccl_library() {
  throw InputError(
      "this build has no nccl backend: configure with -DLOCKSTEP_ENABLE_NCCL=ON (needs the CUDA "
      "toolkit and NCCL), or keep tensors on the host");
}

}  // namespace lockstep
