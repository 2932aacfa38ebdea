// A group that one rank ends for all, with the reason.
#include <chrono>
#include <string>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/comm/revocation.hpp>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

const GroupOptions patient{.timeout = std::chrono::minutes(5),
                           .progress = test::asked_for_progress()};

TEST(Revocation, EndsWaitsForMessagesAndCollectivesOnAllRanks) {
  for (const bool messages : {true, false}) {
    test::on_every_new_group(
        [messages](ProcessGroup& group) {
          if (group.size() == 1 || std::string(group.backend()) == "nccl") return group.close();
          Revocation revocation(group);
          const int lost = group.size() - 1;
          const auto begin = Clock::now();
          const auto t = Tensor::zeros({3});
          const auto wait = [&] {
            group.barrier();  // all have a Revocation
            if (messages) {
              group.recv(t, lost, 4);
            } else {
              group.all_reduce(t, ReduceOp::sum).wait();
            }
          };
          if (group.rank() == lost) {
            group.barrier();
            revocation.revoke("the sky has fallen");
          } else {
            EXPECT_TRUE(test::mentions(test::message_of<CommError>(wait),
                                       "it was revoked: the sky has fallen"));
          }
          EXPECT_LT(seconds_since(begin), 60.0) << "on however busy a machine";
          EXPECT_TRUE(test::mentions(test::message_of<CommError>([&] { group.barrier(); }),
                                     "it was revoked: the sky has fallen"));
          revocation.revoke("nobody hears this");
          EXPECT_TRUE(test::mentions(test::message_of<CommError>([&] { group.close(); }),
                                     "the sky has fallen"));
        },
        patient);
  }
}

TEST(Revocation, ThatIsNotUsedLeavesTheGroupAsItIs) {
  test::on_every_new_group([](ProcessGroup& group) {
    const auto sum_ranks = [&] {
      const auto t = Tensor::full({3}, 1.0);
      group.all_reduce(t, ReduceOp::sum).wait();
      EXPECT_EQ(t[0].item(), group.size());
    };
    for (int i = 0; i < 3; ++i) {
      const Revocation revocation(group);
      sum_ranks();
    }
    sum_ranks();
    const Revocation alive(group);
    sum_ranks();
    group.close();  // waits for no word of it
  });
}

TEST(Revocation, DoesNothingInAGroupOfOne) {
  FakeGroup group(4, 1);
  Revocation revocation(group);
  revocation.revoke("for others");
  group.barrier();
}

}  // namespace
}  // namespace lockstep
