// Ranks with different calls: every rank throws, the error names the ranks and both calls, and no
// buffer is written, neither outside its bytes nor within.
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/deadlines.hpp>
#include <comm/tensors.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/coalescing.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

using test::Arena;

/// A call on tensors of the arena, and how errors describe it.
struct Called {
  std::function<void(ProcessGroup&, Arena&)> call;
  std::string text;
};

/// Rank 1 makes another call than the others.
void expect_refused(const Called& usual, const Called& deviant,
                    Contract contract = Contract::hash) {
  const auto claim = [&](ProcessGroup& group) {
    if (group.size() < 2) return;
    Arena arena(group, test::Place::shared);
    const bool deviates = group.rank() == 1;
    const auto message =
        test::message_of<CommError>([&] { (deviates ? deviant : usual).call(group, arena); });
    EXPECT_NE(message.find(usual.text), std::string::npos) << message;
    EXPECT_NE(message.find(deviant.text), std::string::npos) << message;
    EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
    EXPECT_NE(message.find("all ranks must make the same calls"), std::string::npos) << message;
    EXPECT_TRUE(arena.is_untouched());
    EXPECT_THROW(group.barrier(), CommError);
  };
  test::on_every_new_group(claim, {.timeout = test::usual_options.timeout, .contract = contract});
}

Called all_reduce(const Shape& shape, DType dtype = DType::f32, ReduceOp op = ReduceOp::sum) {
  return {[=](ProcessGroup& group, Arena& arena) {
            group.all_reduce(arena.take(shape, dtype), op).wait();
          },
          std::string("all_reduce(") + name_of(op) + ")"};
}

Called broadcast(std::int64_t n, int root) {
  return {[=](ProcessGroup& group, Arena& arena) {
            group.broadcast(arena.take({n}, DType::f32), root).wait();
          },
          "broadcast(root " + std::to_string(root) + ")"};
}

Called named(Called call, const std::string& tensor) {
  call.text = tensor;
  return call;
}

// Both a tensor that fits into a slot of the slot table, and one that does not.
constexpr std::int64_t call_lengths[] = {5, 3000};

TEST(Mismatch, OfTheOperationIsRefused) {
  for (const auto n : call_lengths) expect_refused(all_reduce({n}), broadcast(n, 0));
}

TEST(Mismatch, OfTheReductionIsRefused) {
  for (const auto n : call_lengths) {
    expect_refused(all_reduce({n}), all_reduce({n}, DType::f32, ReduceOp::max));
  }
}

TEST(Mismatch, OfTheRootIsRefused) {
  for (const auto n : call_lengths) expect_refused(broadcast(n, 0), broadcast(n, 1));
}

TEST(Mismatch, OfTheDtypeIsRefused) {
  for (const auto n : call_lengths) {
    expect_refused(named(all_reduce({n}), "of f32"), named(all_reduce({n}, DType::i32), "of i32"));
  }
}

TEST(Mismatch, OfTheShapeIsRefused) {
  expect_refused(named(all_reduce({3000}), "f32[3000]"), named(all_reduce({3001}), "f32[3001]"));
  expect_refused(named(all_reduce({5}), "f32[5]"), named(all_reduce({3000}), "f32[3000]"));
  expect_refused(named(all_reduce({0}), "f32[0]"), named(all_reduce({4}), "f32[4]"));
}

TEST(Mismatch, OfRowsWithEqualElementsIsFoundByTheFullContract) {
  expect_refused(named(all_reduce({2, 3}), "f32[2, 3]"), named(all_reduce({3, 2}), "f32[3, 2]"),
                 Contract::full);
  expect_refused(named(all_reduce({6}), "f32[6]"), named(all_reduce({6, 1}), "f32[6, 1]"),
                 Contract::full);
}

TEST(Mismatch, OfRowsWithEqualElementsPassesOtherwise) {
  test::on_every_group([](ProcessGroup& group) {
    const auto t = group.rank() == 0 ? Tensor::full({2, 3}, 1.0) : Tensor::full({3, 2}, 1.0);
    group.all_reduce(t, ReduceOp::sum).wait();
    EXPECT_EQ(test::values_of(t), std::vector<double>(6, group.size()));
  });
}

TEST(Mismatch, OfTheCountsIsRefused) {
  const auto gather = [](std::int64_t first) {
    return [=](ProcessGroup& group, Arena& arena) {
      test::Counts counts(static_cast<std::size_t>(group.size()), 2);
      counts[0] = first;
      const std::int64_t mine = group.rank() == 0 ? first : 2;
      group
          .all_gather_v(arena.take({mine}, DType::f32),
                        arena.take({test::total(counts)}, DType::f32), counts)
          .wait();
    };
  };
  expect_refused({gather(2), "all_gather #"}, {gather(700), "all_gather #"});
}

TEST(Mismatch, OfEqualSharesAndCountsIsRefused) {
  const Called equal{
      [](ProcessGroup& group, Arena& arena) {
        const Shape none{group.size(), 0};
        group.all_to_all(arena.take(none, DType::f32), arena.take(none, DType::f32)).wait();
      },
      "all_to_all #"};
  const Called counted{[](ProcessGroup& group, Arena& arena) {
                         const test::Counts none(static_cast<std::size_t>(group.size()), 0);
                         group
                             .all_to_all_v(arena.take({0, 0}, DType::f32),
                                           arena.take({0, 0}, DType::f32), none, none)
                             .wait();
                       },
                       "all_to_all #"};
  expect_refused(equal, counted);
}

TEST(Mismatch, OfASkippedCallIsRefused) {
  const auto both = [](bool first) {
    return [=](ProcessGroup& group, Arena& arena) {
      if (first) group.all_reduce(arena.take({3000}, DType::f32), ReduceOp::sum).wait();
      group.barrier();
    };
  };
  expect_refused({both(true), "all_reduce(sum)"}, {both(false), "barrier"});
}

TEST(Mismatch, OfASplitOfTheGroupIsRefused) {
  expect_refused(
      {[](ProcessGroup& group, Arena&) { static_cast<void>(group.split(0, 0)); }, "all_gather"},
      {[](ProcessGroup& group, Arena&) { group.barrier(); }, "barrier"});
}

TEST(Mismatch, AmongManyInFlightIsFoundBeforeItsResultIsRead) {
  const auto several = [](int deviant_at) {
    return [=](ProcessGroup& group, Arena& arena) {
      std::vector<Work> works;
      for (int i = 0; i < 10; ++i) {
        const auto t = arena.take({0}, i == deviant_at ? DType::f64 : DType::f32);
        works.push_back(group.all_reduce(t, ReduceOp::sum));
      }
      for (Work& work : works) work.wait();
    };
  };
  expect_refused({several(-1), "of f32[0]"}, {several(7), "of f64[0]"});
}

TEST(Mismatch, OfACoalescedCallIsRefused) {
  const auto batch = [](ReduceOp op) {
    return [=](ProcessGroup& group, Arena& arena) {
      Coalescing coalescing(group);
      static_cast<void>(group.all_reduce(arena.take({0}, DType::f32), ReduceOp::sum));
      static_cast<void>(group.all_reduce(arena.take({2000}, DType::f32), op));
      coalescing.end().wait();
    };
  };
  expect_refused({batch(ReduceOp::sum), "all_reduce(sum)"}, {batch(ReduceOp::min), "(min)"});
}

TEST(Mismatch, OfAMissingCallTimesOutAndNamesTheRankIfKnown) {
  test::on_groups_with_deadline([](ProcessGroup& group, std::chrono::milliseconds) {
    if (group.size() < 2) return std::string();
    Arena arena(group, test::Place::shared);
    if (group.rank() == 1) return std::string();
    const auto t = arena.take({3000}, DType::f32);
    const auto message =
        test::message_of<CommError>([&] { group.all_reduce(t, ReduceOp::sum).wait(); });
    const std::string absent = test::share_memory(group.rank(), 1)
                                   ? "rank 1 has not"
                                   : "at least one rank of another node";
    for (const std::string& part :
         {std::string("all_reduce(sum)"), std::string("of f32[3000] has not completed after "),
          " s: " + absent}) {
      if (message.find(part) == std::string::npos) return part + " is not in " + message;
    }
    EXPECT_TRUE(arena.is_untouched());
    EXPECT_THROW(group.barrier(), CommError);
    return std::string();
  });
}

}  // namespace
}  // namespace lockstep
