// apps/classify with a stand-in for NCCL that serves simulated devices, so that training there uses
// nccl groups. The last line on stderr counts their use.
#include <cstdio>
#include <memory>

#include <comm/nccl/stand_in.hpp>
#include <lockstep/comm/nccl/group.hpp>
#include <lockstep/train/app.hpp>
#include <lockstep/train/task/classification.hpp>

int main(int argc, char** argv) {
  const auto nccl = std::make_shared<lockstep::test::StandIn>();
  lockstep::use_nccl_api(nccl);
  lockstep::train::App app(
      "classify", "Trains an image classifier from an input deck.",
      [](lockstep::Deck& deck) { return std::make_unique<lockstep::train::Classification>(deck); });
  const int code = app.run(argc, argv);
  for (const auto& violation : nccl->violations()) std::fprintf(stderr, "%s\n", violation.c_str());
  std::fprintf(stderr, "ncclAllReduce: %d, wrong uses: %zu\n", nccl->calls("ncclAllReduce"),
               nccl->violations().size());
  return code;
}
