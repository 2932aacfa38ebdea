// Tests of the nccl backend without a GPU: the exchange of the ID, and the message if a rank has no
// GPU.
#include <string>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/nccl/communicator.hpp>
#include <lockstep/comm/nccl_group.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

constexpr Device gpu{DeviceType::cuda, 0};

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

std::shared_ptr<ProcessGroup> control_group() {
  return make_mpi_group(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(60)});
}

TEST(Nccl, TheUniqueIdOfRankZeroReachesEveryRank) {
  const auto control = control_group();
  const NcclId id = exchange_unique_id(*nccl_library(), *control);
  const std::string mine(id.data(), id.size());
  EXPECT_NE(mine, std::string(id.size(), '\0'));
  for (const auto& theirs : all_gather_object(*control, mine)) EXPECT_EQ(theirs, mine);
  control->close();
}

TEST(Nccl, ARankWithoutADeviceIsAnErrorOnEveryRank) {
  const auto control = control_group();
  const Device missing = has_gpu() && control->rank() == 0 ? gpu : Device{DeviceType::cuda, 77};
  try {
    static_cast<void>(make_nccl_group(control, missing));
    EXPECT_TRUE(has_gpu() && control->size() == 1);
  } catch (const InputError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("the nccl backend needs a GPU on every rank, but rank"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("cuda:77"), std::string::npos) << message;
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
  }
  control->close();
}

}  // namespace
}  // namespace lockstep
