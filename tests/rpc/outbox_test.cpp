#include <lockstep/rpc/outbox.hpp>

#include <gtest/gtest.h>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/rpc/message.hpp>

namespace lockstep::rpc {
namespace {

using std::chrono::microseconds;

Outbox::QueuedMessage queued(bool waits = true) {
  return {.bytes = Tensor::zeros({sizeof(Head)}, DType::u8), .waits = waits};
}

TEST(Outbox, LimitsTheMessagesInFlightToARank) {
  FakeGroup group(2, 0);
  Acknowledgements come(2);
  Outbox outbox(group, come, true, microseconds{0});
  const auto sent = [&] { return group.traffic().operations; };
  for (int i = 0; i < 5000; ++i) outbox.send(1, queued());
  EXPECT_EQ(sent(), 1024);
  outbox.has_received(1, 100);
  EXPECT_EQ(sent(), 1124);
  outbox.has_received(1, 50);  // an older message that comes later
  EXPECT_EQ(sent(), 1124);
  outbox.has_received(1, 1125);  // more than were sent
  EXPECT_EQ(sent(), 1124);
  outbox.send(1, queued(false));
  EXPECT_EQ(sent(), 1125);
  outbox.has_received(1, 1125);
  EXPECT_EQ(sent(), 2149);
  outbox.has_received(1, 2149);
  outbox.has_received(1, 3173);
  outbox.has_received(1, 4197);
  EXPECT_EQ(sent(), 5001);
  outbox.send(1, queued());
  EXPECT_EQ(sent(), 5002);
}

TEST(Outbox, AcknowledgesReceivedMessagesWithEachOneSent) {
  FakeGroup group(2, 0);
  Acknowledgements come(2);
  Outbox outbox(group, come, true, microseconds{0});
  const auto told = [](const Outbox::QueuedMessage& sent) {
    Head head;
    std::memcpy(&head, sent.bytes.data(), sizeof(head));
    return head.received;
  };
  const auto first = queued();
  outbox.send(1, Outbox::QueuedMessage(first));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(come.add(1));
  const auto second = queued();
  outbox.send(1, Outbox::QueuedMessage(second));
  EXPECT_EQ(told(first), 0);
  EXPECT_EQ(told(second), 3);
  int alone = 0;
  for (int i = 0; i < 2000; ++i) alone += come.add(1) ? 1 : 0;
  EXPECT_EQ(alone, 3);  // one for each half of the window
}

}  // namespace
}  // namespace lockstep::rpc
