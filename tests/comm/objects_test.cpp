#include <string>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/objects.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

/// Of another length on every rank: nothing on rank 0, then kilobytes, with zero bytes among them.
std::string object_of(int rank) {
  return std::string(static_cast<std::size_t>(rank) * 1000, static_cast<char>('a' + rank)) +
         std::string("\0x", static_cast<std::size_t>(rank % 3));
}

std::vector<std::string> objects_of(int ranks) {
  std::vector<std::string> objects;
  for (int r = 0; r < ranks; ++r) objects.push_back(object_of(r));
  return objects;
}

TEST(Objects, AreBroadcastWithTheirLengths) {
  test::on_every_group([](ProcessGroup& group) {
    for (int root = 0; root < group.size(); ++root) {
      EXPECT_EQ(broadcast_object(group, object_of(group.rank()), root), object_of(root));
    }
  });
}

TEST(Objects, AreGatheredInRankOrder) {
  test::on_every_group([](ProcessGroup& group) {
    const auto all = objects_of(group.size());
    const std::vector<std::string> empty(all.size());
    EXPECT_EQ(all_gather_object(group, object_of(group.rank())), all);
    EXPECT_EQ(all_gather_object(group, ""), empty);
    for (int root = 0; root < group.size(); ++root) {
      const bool gets = group.rank() == root;
      EXPECT_EQ(gather_object(group, object_of(group.rank()), root),
                gets ? all : std::vector<std::string>());
    }
  });
}

TEST(Objects, AreScatteredFromTheRootsList) {
  test::on_every_group([](ProcessGroup& group) {
    for (int root = 0; root < group.size(); ++root) {
      // The others' lists are not looked at, however long.
      const auto mine = group.rank() == root ? objects_of(group.size())
                                             : std::vector<std::string>{"no", "matter"};
      EXPECT_EQ(scatter_object(group, mine, root), object_of(group.rank()));
    }
  });
}

TEST(Objects, OfAWrongNumberAreRefusedByEveryRank) {
  test::on_every_group([](ProcessGroup& group) {
    const int root = group.size() - 1;
    EXPECT_EQ(test::message_of<InputError>([&] {
                static_cast<void>(scatter_object(group, objects_of(group.size() + 1), root));
              }),
              "rank " + std::to_string(root) + " of " + std::to_string(group.size()) +
                  " cannot send its object: scatter_object takes one object a rank, " +
                  std::to_string(group.size()) + " of them, not " +
                  std::to_string(group.size() + 1));
    EXPECT_THROW(static_cast<void>(broadcast_object(group, "x", group.size())), ShapeError);
    EXPECT_EQ(broadcast_object(group, object_of(group.rank()), root), object_of(root));
  });
}

TEST(Objects, MissingOnOneRankAreRefusedByEveryRank) {
  test::on_every_group([](ProcessGroup& group) {
    for (int failing = 0; failing < group.size(); ++failing) {
      const bool fails = group.rank() == failing;
      const ObjectBytes mine = fails ? ObjectBytes::none("it is a lock") : ObjectBytes("x");
      std::vector<ObjectBytes> list(static_cast<std::size_t>(group.size()), ObjectBytes{"x"});
      list.back() = mine;
      const std::string expected = "rank " + std::to_string(failing) + " of " +
                                   std::to_string(group.size()) +
                                   " cannot send its object: it is a lock";
      const auto expect_refused = [&](const auto& call) {
        EXPECT_EQ(test::message_of<InputError>([&] { static_cast<void>(call()); }), expected);
      };
      expect_refused([&] { return broadcast_object(group, mine, failing); });
      expect_refused([&] { return all_gather_object(group, mine); });
      for (int root = 0; root < group.size(); ++root) {
        expect_refused([&] { return gather_object(group, mine, root); });
      }
      expect_refused([&] { return scatter_object(group, list, failing); });
      EXPECT_EQ(all_gather_object(group, object_of(group.rank())), objects_of(group.size()));
    }
  });
}

TEST(Objects, ScalarsAreReduced) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size();
    EXPECT_EQ(all_reduce_scalar(group, group.rank(), ReduceOp::max), n - 1);
    EXPECT_EQ(all_reduce_scalar(group, group.rank(), ReduceOp::min), 0);
    EXPECT_EQ(all_reduce_scalar(group, 0.5, ReduceOp::sum), 0.5 * n);
    EXPECT_EQ(all_reduce_scalar(group, 2.0, ReduceOp::product), static_cast<double>(1 << n));
    EXPECT_THROW(static_cast<void>(all_reduce_scalar(group, 1.0, ReduceOp::bor)), ShapeError);
  });
}

}  // namespace
}  // namespace lockstep
