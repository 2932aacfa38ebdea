#include <array>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/deadlines.hpp>
#include <comm/tensors.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/coalescing.hpp>
#include <lockstep/comm/message_port.hpp>
#include <lockstep/comm/thread_level.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

using test::Arena;

int after(const ProcessGroup& group) { return (group.rank() + 1) % group.size(); }
int before(const ProcessGroup& group) { return (group.rank() + group.size() - 1) % group.size(); }

TEST(Messages, GoRoundInARingForEveryDtypeAndLength) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      for (const DType dtype : test::every_dtype) {
        for (const std::int64_t n : {0, 1, 257, 3000}) {
          SCOPED_TRACE(std::string(name_of(dtype)) + " x " + std::to_string(n));
          arena.reset();
          const auto mine = test::values(dtype, group.rank(), n);
          const auto sent = arena.take({n}, dtype, mine), received = arena.take({n}, dtype);
          auto sending = group.isend(sent, after(group));
          auto receiving = group.irecv(received, before(group));
          receiving.wait();
          sending.wait();
          EXPECT_EQ(receiving.source(), before(group));
          EXPECT_EQ(sending.source(), -1);
          EXPECT_EQ(test::values_of(received), test::values(dtype, before(group), n));
          EXPECT_EQ(test::values_of(sent), mine);
          EXPECT_TRUE(arena.guards_hold());
        }
      }
    };
    test::in_every_place(claim, everybody);
  });
}

TEST(Messages, OfAScalarMayArriveInAVector) {
  test::on_every_group([](ProcessGroup& group) {
    const auto received = Tensor::zeros({1});
    auto work = group.isend(Tensor::full({}, group.rank()), after(group));
    EXPECT_EQ(group.recv(received, before(group)), before(group));
    work.wait();
    EXPECT_EQ(received.item(), before(group));
  });
}

// Even ranks send first; a group of odd size ends with two of them side by side.
TEST(Messages, BlockingSendAndReceiveMeet) {
  test::on_every_group([](ProcessGroup& group) {
    const auto t = Tensor::full({20000}, group.rank());
    if (group.rank() % 2 == 0 && group.rank() + 1 < group.size()) {
      group.send(t, group.rank() + 1, 3);
    } else if (group.rank() % 2 == 1) {
      EXPECT_EQ(group.recv(t, group.rank() - 1, 3), group.rank() - 1);
      EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(group.rank() - 1));
    }
  });
}

TEST(Messages, AreDistinguishedByTheirTags) {
  test::on_every_group([](ProcessGroup& group) {
    constexpr int tags[] = {0, 1, message_tags - 1, 77};
    std::vector<Work> works;
    std::vector<Tensor> received;
    for (const int tag : tags) {
      works.push_back(group.isend(Tensor::full({5}, tag + 0.5), after(group), tag));
    }
    for (std::size_t i = 4; i-- > 0;) {  // in the other order
      received.push_back(Tensor::zeros({5}));
      works.push_back(group.irecv(received.back(), before(group), tags[i]));
    }
    for (Work& work : works) work.wait();
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(received[3 - i].to_vector<float>(),
                std::vector<float>(5, static_cast<float>(tags[i] + 0.5)));
    }
  });
}

TEST(Messages, OfOneSenderAndTagArriveInOrder) {
  test::on_every_group([](ProcessGroup& group) {
    constexpr int count = 100;
    std::vector<Work> sending, receiving;
    std::vector<Tensor> received;
    for (int i = 0; i < count; ++i) {
      // Long and short messages use different paths, but must not overtake.
      const std::int64_t n = i % 7 == 0 ? 30000 : 4;
      received.push_back(Tensor::zeros({n}, DType::i32));
      sending.push_back(group.isend(Tensor::full({n}, i, DType::i32), after(group)));
      receiving.push_back(group.irecv(received.back(), before(group)));
    }
    for (Work& work : receiving) work.wait();
    for (Work& work : sending) work.wait();
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(received[static_cast<std::size_t>(i)].to_vector<std::int32_t>().back(), i);
    }
  });
}

// Whenever a message comes: it must not be taken by the younger of two receives that take it.
TEST(Messages, GoToTheReceiveThatWasStartedFirst) {
  test::on_every_group([](ProcessGroup& group) {
    for (int i = 0; i < 500; ++i) {
      const auto first = Tensor::zeros({1}, DType::i32), second = Tensor::zeros({1}, DType::i32);
      const int peer = before(group);
      auto receiving_first = group.irecv(first, i % 2 == 0 ? any_source : peer, 6);
      auto receiving_second = group.irecv(second, i % 2 == 0 ? peer : any_source, 6);
      auto sending_first = group.isend(Tensor::full({1}, 2 * i, DType::i32), after(group), 6);
      auto sending_second = group.isend(Tensor::full({1}, 2 * i + 1, DType::i32), after(group), 6);
      receiving_second.wait();
      receiving_first.wait();
      ASSERT_EQ(first.item(), 2 * i);
      ASSERT_EQ(second.item(), 2 * i + 1);
      ASSERT_EQ(receiving_first.source(), peer);
      ASSERT_EQ(receiving_second.source(), peer);
      sending_first.wait();
      sending_second.wait();
    }
  });
}

TEST(Messages, FromAnySourceNameTheirSender) {
  test::on_every_group([](ProcessGroup& group) {
    constexpr int root = 0;
    auto mine = group.isend(Tensor::full({9}, group.rank() + 100), root, 5);
    if (group.rank() == root) {
      std::vector<bool> heard(static_cast<std::size_t>(group.size()));
      for (int i = 0; i < group.size(); ++i) {
        const auto t = Tensor::zeros({9});
        const int source = group.recv(t, any_source, 5);
        ASSERT_GE(source, 0);
        ASSERT_LT(source, group.size());
        EXPECT_EQ(t.to_vector<float>(), std::vector<float>(9, static_cast<float>(source + 100)));
        EXPECT_FALSE(heard[static_cast<std::size_t>(source)]) << source;
        heard[static_cast<std::size_t>(source)] = true;
      }
    }
    mine.wait();
  });
}

TEST(Messages, FromAnySourceAreNotMistakenForCollectives) {
  test::on_every_group([](ProcessGroup& group) {
    const auto received = Tensor::zeros({2000});
    const auto rows = Tensor::zeros({group.size(), 1000}),
               columns = Tensor::zeros({group.size(), 1000});
    const auto t = Tensor::full({2000}, 1.0);
    auto message = group.irecv(received, any_source);
    const test::Counts ones(static_cast<std::size_t>(group.size()), 1);
    auto exchange = group.all_to_all_v(rows, columns, ones, ones);
    auto sum = group.all_reduce(t, ReduceOp::sum);
    exchange.wait();
    sum.wait();
    auto sent = group.isend(Tensor::full({2000}, 3.0), after(group));
    message.wait();
    sent.wait();
    EXPECT_EQ(message.source(), before(group));
    EXPECT_EQ(received.to_vector<float>(), std::vector<float>(2000, 3.0F));
    EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(group.size()));
  });
}

TEST(Messages, OfUnknownLengthBringTheirBytes) {
  test::on_every_group([](ProcessGroup& group) {
    for (const std::int64_t n : {0, 1, 5000, 300000}) {
      for (const int peer : {before(group), any_source}) {
        auto receiving = MessagePort(group).irecv(peer, 4);
        auto sending = group.isend(Tensor::full({n}, group.rank() + 3, DType::u8), after(group), 4);
        receiving.wait();
        sending.wait();
        EXPECT_EQ(receiving.source(), before(group));
        const Tensor bytes = receiving.message();
        ASSERT_TRUE(bytes.defined());
        EXPECT_EQ(bytes.dtype(), DType::u8);
        ASSERT_EQ(bytes.shape(), Shape({n}));
        EXPECT_EQ(bytes.to_vector<std::uint8_t>(),
                  std::vector<std::uint8_t>(static_cast<std::size_t>(n),
                                            static_cast<std::uint8_t>(before(group) + 3)));
        EXPECT_FALSE(sending.message().defined());
      }
    }
  });
}

// MPI looks for one kind and posts the other.
TEST(Messages, OfKnownAndUnknownLengthKeepTheirOrder) {
  test::on_every_group([](ProcessGroup& group) {
    for (int i = 0; i < 200; ++i) {
      const auto known = Tensor::zeros({8}, DType::u8), last = Tensor::zeros({8}, DType::u8);
      auto first = MessagePort(group).irecv(i % 2 == 0 ? any_source : before(group), 8);
      auto second = group.irecv(known, before(group), 8);
      auto third = MessagePort(group).irecv(before(group), 8);
      auto fourth = group.irecv(last, before(group), 8);
      std::vector<Work> sending;
      for (int k = 0; k < 4; ++k) {
        sending.push_back(
            group.isend(Tensor::full({8}, (4 * i + k) % 256, DType::u8), after(group), 8));
      }
      fourth.wait();
      third.wait();
      second.wait();
      first.wait();
      for (Work& work : sending) work.wait();
      ASSERT_EQ(first.message()[0].item(), 4 * i % 256);
      ASSERT_EQ(known[-1].item(), (4 * i + 1) % 256);
      ASSERT_EQ(third.message()[0].item(), (4 * i + 2) % 256);
      ASSERT_EQ(last[-1].item(), (4 * i + 3) % 256);
    }
  });
}

/// Every rank sends its neighbour `sent` and expects `expected`; returns the error message.
std::string refusal_of(ProcessGroup& group, const Tensor& sent, const Tensor& expected, int from) {
  return test::message_of<CommError>([&] {
    auto sending = group.isend(sent, after(group), 2);
    auto receiving =
        expected.defined() ? group.irecv(expected, from, 2) : MessagePort(group).irecv(from, 2);
    receiving.wait();
  });
}

TEST(Messages, OfAnotherDtypeAreRefusedAndNotWritten) {
  for (const std::int64_t n : {1, 5, 300000}) {
    for (const bool from_any : {false, true}) {
      test::on_every_new_group([&](ProcessGroup& group) {
        const auto expected = Tensor::full({n}, 7, DType::i32);
        const auto message = refusal_of(group, Tensor::full({n}, 5.0), expected,
                                        from_any ? any_source : before(group));
        EXPECT_NE(message.find("f32"), std::string::npos) << message;
        EXPECT_NE(message.find("i32"), std::string::npos) << message;
        EXPECT_EQ(expected.to_vector<std::int32_t>(),
                  std::vector<std::int32_t>(static_cast<std::size_t>(n), 7));
      });
    }
  }
}

TEST(Messages, WithoutALengthAreBytesOnly) {
  test::on_every_new_group([](ProcessGroup& group) {
    const auto message = refusal_of(group, Tensor::full({2}, 5.0), Tensor(), before(group));
    EXPECT_NE(message.find("f32"), std::string::npos) << message;
    EXPECT_NE(message.find("u8"), std::string::npos) << message;
  });
}

// One of another dtype that follows is not taken for the one that is awaited.
TEST(Messages, OfSeveralDtypesUnderOneTagArriveSideBySide) {
  test::on_every_group([](ProcessGroup& group) {
    for (const std::int64_t n : {3, 2000000}) {
      auto first = group.isend(Tensor::full({n}, 1.5), after(group), 3);
      auto second = group.isend(Tensor::full({3}, 2, DType::i32), after(group), 3);
      const auto x = Tensor::zeros({n});
      const auto y = Tensor::zeros({3}, DType::i32);
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      group.recv(x, before(group), 3);
      group.recv(y, before(group), 3);
      first.wait();
      second.wait();
      EXPECT_EQ(x[-1].item(), 1.5);
      EXPECT_EQ(y.to_vector<std::int32_t>(), (std::vector<std::int32_t>{2, 2, 2}));
    }
  });
}

/// Every rank starts receives of f32 and i32, then its neighbour sends to them after a while each.
void exchange_two_dtypes(ProcessGroup& group, bool in_order, const Tensor& x, const Tensor& y) {
  constexpr auto a_while = std::chrono::milliseconds(120);  // OtherDtype looks every 25 ms
  const Tensor a = Tensor::full({3}, 1.5), b = Tensor::full({3}, 2, DType::i32);
  auto of_x = group.irecv(x, before(group), 3), of_y = group.irecv(y, before(group), 3);
  for (const Tensor& t : in_order ? std::array{a, b} : std::array{b, a}) {
    static_cast<void>(of_x.wait_for(a_while));
    group.send(t, after(group), 3);
  }
  of_x.wait();
  of_y.wait();
}

TEST(Messages, OfSeveralDtypesUnderOneTagMayBeReceivedInOrder) {
  test::on_every_group([](ProcessGroup& group) {
    const Tensor x = Tensor::zeros({3}), y = Tensor::zeros({3}, DType::i32);
    exchange_two_dtypes(group, true, x, y);
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(3, 1.5F));
    EXPECT_EQ(y.to_vector<std::int32_t>(), (std::vector<std::int32_t>{2, 2, 2}));
  });
}

// In another order they fail, or get their own message: never another receive's.
TEST(Messages, OfSeveralDtypesInAnotherOrderAreNeverMistaken) {
  const auto claim = [](ProcessGroup& group) {
    const Tensor x = Tensor::zeros({3}), y = Tensor::zeros({3}, DType::i32);
    try {
      exchange_two_dtypes(group, false, x, y);
      EXPECT_EQ(x.to_vector<float>(), std::vector<float>(3, 1.5F));
      EXPECT_EQ(y.to_vector<std::int32_t>(), (std::vector<std::int32_t>{2, 2, 2}));
    } catch (const CommError&) {
      EXPECT_TRUE(x[0].item() == 0.0 || x[0].item() == 1.5);
      EXPECT_TRUE(y[0].item() == 0.0 || y[0].item() == 2.0);
    }
  };
  GroupOptions options = test::usual_options;
  options.timeout = std::chrono::seconds(5);  // a rank may wait for a neighbour that has failed
  test::on_every_new_group(claim, options);
}

TEST(Messages, MayBeCancelledAndLeaveTheirTensorAlone) {
  test::on_every_group([](ProcessGroup& group) {
    const auto given_up = Tensor::full({3}, 7.0), taken = Tensor::zeros({3});
    auto known = group.irecv(given_up, before(group), 11);
    auto unknown = MessagePort(group).irecv(any_source, 12);
    known.cancel();
    unknown.cancel();
    unknown.cancel();  // twice is once
    known.wait();
    unknown.wait();
    EXPECT_TRUE(known.cancelled());
    EXPECT_TRUE(unknown.cancelled());
    EXPECT_FALSE(unknown.message().defined());
    EXPECT_EQ(known.source(), -1);
    group.barrier();
    // A later message goes to the later receive.
    for (const int tag : {11, 12}) {
      auto sending = group.isend(Tensor::full({3}, group.rank()), after(group), tag);
      EXPECT_EQ(group.recv(taken, before(group), tag), before(group));
      sending.wait();
      EXPECT_EQ(taken.to_vector<float>().back(), static_cast<float>(before(group)));
    }
    EXPECT_EQ(given_up.to_vector<float>(), std::vector<float>(3, 7.0F));
  });
}

TEST(Messages, CancelledTooLateHaveArrived) {
  test::on_every_group([](ProcessGroup& group) {
    const auto t = Tensor::zeros({3});
    auto receiving = group.irecv(t, before(group), 13);
    auto sending = group.isend(Tensor::full({3}, group.rank()), after(group), 13);
    sending.cancel();  // nothing for a message that is sent
    receiving.wait();
    receiving.cancel();
    receiving.wait();
    sending.wait();
    EXPECT_FALSE(receiving.cancelled());
    EXPECT_FALSE(sending.cancelled());
    EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(before(group)));
  });
}

TEST(Messages, MayBeWaitedForLongerThanTheDeadline) {
  test::on_groups_with_deadline([](ProcessGroup& group, std::chrono::milliseconds deadline) {
    if (group.size() > 2) return std::string();  // it takes its time
    auto receiving = MessagePort(group).irecv(before(group), 1);
    EXPECT_FALSE(receiving.wait_for(deadline * 3 / 2));
    group.barrier();
    auto sending = group.isend(Tensor::full({3}, group.rank(), DType::u8), after(group), 1);
    for (int i = 0; !receiving.wait_for(std::chrono::seconds(1)); ++i) {
      if (i == 30) return std::string("the message has not come");
    }
    EXPECT_EQ(receiving.source(), before(group));
    sending.wait();
    group.barrier();
    return std::string();
  });
}

TEST(Messages, MayBeWaitedForWithoutALimit) {
  test::on_every_group([](ProcessGroup& group) {
    constexpr auto for_ever = std::chrono::microseconds::max();
    auto first = MessagePort(group).irecv(before(group), 1);
    {
      Coalescing batch(group);
      static_cast<void>(group.isend(Tensor::full({3}, group.rank()), after(group), 2));
      static_cast<void>(group.irecv(Tensor::zeros({3}), before(group), 2));
      EXPECT_TRUE(batch.end().wait_for(for_ever));
    }
    auto sending = group.isend(Tensor::full({3}, group.rank(), DType::u8), after(group), 1);
    EXPECT_TRUE(MessagePort::wait_for(first, for_ever, for_ever));
    auto last = MessagePort(group).irecv(before(group), 1);
    auto answer = group.isend(Tensor::full({3}, group.rank(), DType::u8), after(group), 1);
    EXPECT_TRUE(last.wait_for(for_ever));
    sending.wait();
    answer.wait();
  });
}

TEST(Messages, MayGoToOneself) {
  test::on_every_group([](ProcessGroup& group) {
    for (const std::int64_t n : {3, 40000}) {
      const auto received = Tensor::zeros({n});
      auto receiving = group.irecv(received, any_source, 9);
      auto sending = group.isend(Tensor::full({n}, group.rank() + 1), group.rank(), 9);
      sending.wait();
      receiving.wait();
      EXPECT_EQ(receiving.source(), group.rank());
      EXPECT_EQ(received.to_vector<float>().back(), static_cast<float>(group.rank() + 1));
    }
  });
}

TEST(Messages, KeepTheirTensorAlive) {
  test::on_every_group([](ProcessGroup& group) {
    const auto received = Tensor::zeros({50000});
    static_cast<void>(group.isend(Tensor::full({50000}, 6.0), after(group)));  // both dropped
    group.recv(received, before(group));
    EXPECT_EQ(received.to_vector<float>(), std::vector<float>(50000, 6.0F));
    group.barrier();
  });
}

TEST(Messages, OfABatchDoNotWaitForEachOther) {
  test::on_every_group([](ProcessGroup& group) {
    constexpr std::int64_t n = 100000;  // too long to be sent before the other side receives
    std::vector<P2POp> messages;
    std::vector<Tensor> received;
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank()) continue;
      messages.push_back(
          {P2POp::Kind::isend, Tensor::full({n}, group.rank() * 10 + peer), peer, 2});
    }
    for (int peer = 0; peer < group.size(); ++peer) {
      received.push_back(Tensor::zeros({n}));
      if (peer != group.rank()) {
        messages.push_back({P2POp::Kind::irecv, received.back(), peer, 2});
      }
    }
    batch_isend_irecv(group, messages).wait();
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank()) continue;
      EXPECT_EQ(received[static_cast<std::size_t>(peer)].to_vector<float>(),
                std::vector<float>(n, static_cast<float>(peer * 10 + group.rank())));
    }
    batch_isend_irecv(group, {}).wait();
  });
}

TEST(Messages, OfABatchAreSentByOneThreadWhileAnotherCollectsItsOwn) {
  test::on_every_group([](ProcessGroup& group) {
    if (!threads_may_communicate(group)) return;
    const auto here = Tensor::zeros({3}), there = Tensor::zeros({3});
    const auto send_round = [&group](double value, const Tensor& received, int tag) {
      const std::vector<P2POp> messages{
          {P2POp::Kind::isend, Tensor::full({3}, value), after(group), tag},
          {P2POp::Kind::irecv, received, before(group), tag}};
      return batch_isend_irecv(group, messages);
    };
    {
      Coalescing batch(group);
      static_cast<void>(group.isend(Tensor::full({3}, group.rank()), after(group), 1));
      std::async(std::launch::async, [&] {
        send_round(100 + group.rank(), there, 2).wait();
      }).get();
      static_cast<void>(group.irecv(here, before(group), 1));
      EXPECT_THROW(static_cast<void>(send_round(0, there, 3)), Error) << "a batch within a batch";
      batch.end().wait();
    }
    EXPECT_EQ(here.to_vector<float>(), std::vector<float>(3, static_cast<float>(before(group))));
    EXPECT_EQ(there.to_vector<float>(),
              std::vector<float>(3, static_cast<float>(100 + before(group))));
    for (int round = 0; round < 50; ++round) {
      const Tensor of_other = Tensor::zeros({3}), mine = Tensor::zeros({3});
      auto other = std::async(std::launch::async,
                              [&] { send_round(round + group.rank(), of_other, 4).wait(); });
      send_round(-round - group.rank(), mine, 5).wait();
      other.get();
      EXPECT_EQ(of_other.to_vector<float>()[2], static_cast<float>(round + before(group)));
      EXPECT_EQ(mine.to_vector<float>()[2], static_cast<float>(-round - before(group)));
    }
  });
}

/// Rank 0 sends `sent` elements where rank 1 receives ten.
void message_that_does_not_fit(ProcessGroup& group, std::int64_t sent) {
  if (group.size() < 2 || group.rank() > 1) return;
  if (group.rank() == 0) {
    try {
      group.isend(Tensor::full({sent}, 1.0), 1, 4).wait();
    } catch (const CommError&) {  // if the backend reports it on both
    }
    return;
  }
  const auto whole = Tensor::full({30}, 7.0);
  std::string message;
  try {
    group.recv(whole.slice(10, 20), 0, 4);
  } catch (const CommError& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("rank 1 of"), std::string::npos) << message;
  EXPECT_NE(message.find("recv(from rank 0, tag 4)"), std::string::npos) << message;
  EXPECT_NE(message.find("of f32[10]"), std::string::npos) << message;
  EXPECT_EQ(whole.slice(0, 10).to_vector<float>(), std::vector<float>(10, 7.0F));
  EXPECT_EQ(whole.slice(20, 30).to_vector<float>(), std::vector<float>(10, 7.0F));
}

TEST(Messages, OfAnotherLengthAreRefused) {
  for (const std::int64_t sent : {0, 9, 11, 50000}) {
    SCOPED_TRACE(sent);
    test::on_every_new_group([&](ProcessGroup& group) { message_that_does_not_fit(group, sent); });
  }
}

TEST(Messages, ThatAreNotSentTimeOutNamingThePeer) {
  test::on_groups_with_deadline([](ProcessGroup& group, std::chrono::milliseconds) {
    if (group.rank() != 0) return std::string();
    const int peer = group.size() - 1;
    std::string message;
    try {
      group.recv(Tensor::zeros({4}), peer, 8);
    } catch (const CommError& error) {
      message = error.what();
    }
    const std::string call = "recv(from rank " + std::to_string(peer) + ", tag 8)";
    if (message.find(call) == std::string::npos) return call + " is not in " + message;
    EXPECT_THROW(static_cast<void>(group.isend(Tensor::zeros({4}), 0)), CommError);
    return std::string();
  });
}

}  // namespace
}  // namespace lockstep
