// The device that run.device = "auto" takes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <lockstep/comm/fake_group.hpp>
#include <lockstep/train/run/device_choice.hpp>

namespace lockstep::train {
namespace {

using Names = std::vector<std::string>;

TEST(AutomaticDevice, IsTheHostWhereNoRankSeesAGpu) {
  const auto chosen = automatic_device(NodeLayout(Names{"a", "a", "b"}), {"", "", ""});
  EXPECT_EQ(chosen.type, DeviceType::host);
  EXPECT_EQ(chosen.reason, "");
}

TEST(AutomaticDevice, IsAGpuWhereEachRankOfAMachineHasItsOwn) {
  const NodeLayout two_machines(Names{"a", "a", "b", "b"});
  // Machines number their buses alike.
  const auto chosen = automatic_device(two_machines, {"01:00.0", "02:00.0", "01:00.0", "02:00.0"});
  EXPECT_EQ(chosen.type, DeviceType::cuda);
  EXPECT_EQ(chosen.reason, "");
  EXPECT_EQ(automatic_device(NodeLayout(Names{"a"}), {"01:00.0"}).type, DeviceType::cuda);
}

TEST(AutomaticDevice, IsTheHostOfAllRanksWhereOneSeesNoGpuAndSaysSo) {
  const auto chosen =
      automatic_device(NodeLayout(Names{"a", "a", "b"}), {"01:00.0", "02:00.0", ""});
  EXPECT_EQ(chosen.type, DeviceType::host);
  EXPECT_EQ(chosen.reason, "run.device = \"auto\" computes on the host, as rank 2 sees no GPU");
}

TEST(AutomaticDevice, IsTheHostOfAllRanksWhereTwoWouldShareAGpuAndSaysSo) {
  const NodeLayout two_machines(Names{"a", "b", "b", "b"});
  const auto chosen = automatic_device(two_machines, {"01:00.0", "01:00.0", "02:00.0", "01:00.0"});
  EXPECT_EQ(chosen.type, DeviceType::host);
  EXPECT_EQ(chosen.reason,
            "run.device = \"auto\" computes on the host, as ranks 1, 3 would share GPU 01:00.0: "
            "start at most one rank for each GPU of a machine to use them");
}

TEST(AutomaticDevice, LeavesARunOnAMachineWithoutGpusToTheHostWithoutAWord) {
  FakeGroup group(1, 0);
  const DeviceChoice chosen = choose_device(group, {});
  if (chosen.device.type == DeviceType::cuda) {
    EXPECT_NE(chosen.in_words, "");
  } else {
    EXPECT_EQ(chosen.device, Device{});
    EXPECT_EQ(chosen.in_words, "");
  }
}

}  // namespace
}  // namespace lockstep::train
