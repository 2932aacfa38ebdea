#include <algorithm>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/duplicate_group.hpp>
#include <lockstep/comm/message_port.hpp>
#include <lockstep/comm/objects.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

std::vector<std::string> all_names(ProcessGroup& group, int rank_outside) {
  return all_gather_object(group, std::to_string(rank_outside));
}

std::vector<std::string> names(const std::vector<int>& ranks) {
  std::vector<std::string> all;
  for (const int r : ranks) all.push_back(std::to_string(r));
  return all;
}

/// Ranks [begin, end) of a group, the last one first.
std::vector<int> reversed(int begin, int end) {
  std::vector<int> ranks;
  for (int r = end; r-- > begin;) ranks.push_back(r);
  return ranks;
}

TEST(NewGroup, HasItsRanksInTheGivenOrder) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    const std::vector<std::vector<int>> lists = {
        reversed(0, n),
        {n - 1},
        reversed(0, (n + 1) / 2),
        n > 2 ? std::vector<int>{2, 0} : std::vector<int>{0}};
    for (const auto& ranks : lists) {
      const auto some = group.new_group(ranks);
      const auto place = std::ranges::find(ranks, me);
      std::vector<int> global = ranks;
      for (int& rank : global) rank = group.global_rank(rank);
      EXPECT_EQ(some->ranks(), global);
      if (place == ranks.end()) {
        EXPECT_EQ(some->rank(), -1);
        continue;
      }
      EXPECT_EQ(some->rank(), place - ranks.begin());
      EXPECT_EQ(some->size(), static_cast<int>(ranks.size()));
      EXPECT_STREQ(some->backend(), group.backend());
      EXPECT_EQ(all_names(*some, me), names(ranks));
      some->close();
    }
    EXPECT_EQ(all_reduce_scalar(group, 1.0, ReduceOp::sum), n);
  });
}

TEST(NewGroup, GivesAnUnusableGroupToARankOutside) {
  test::on_every_group([](ProcessGroup& group) {
    if (group.size() < 2) return;
    const auto some = group.new_group({group.size() - 1});
    if (group.rank() == group.size() - 1) return some->close();
    EXPECT_EQ(some->size(), 1);
    EXPECT_STREQ(some->backend(), "none");
    const auto t = Tensor::zeros({1});
    const std::vector<std::function<void()>> calls = {
        [&] { some->all_reduce(t, ReduceOp::sum).wait(); },
        [&] { some->all_gather_v(t, t, {1}).wait(); },
        [&] { some->scatter_v(t, t, {1}, 0).wait(); },
        [&] { some->barrier(); },
        [&] { some->send(t, 0); },
        [&] { static_cast<void>(MessagePort(*some).irecv(0)); },
        [&] { static_cast<void>(some->new_group({0})); },
        [&] { static_cast<void>(some->split(0, 0)); },
        [&] { static_cast<void>(duplicate_of(*some)); },
        [&] { static_cast<void>(some->shared_buffer({1}, DType::f32)); },
        [&] { static_cast<void>(all_reduce_scalar(*some, 1.0, ReduceOp::sum)); }};
    for (const auto& call : calls) {
      const auto message = test::message_of<Error>(call);
      EXPECT_NE(message.find("rank " + std::to_string(group.rank()) +
                             " is not in this group, which has ranks [" +
                             std::to_string(group.global_rank(group.size() - 1)) + "]"),
                std::string::npos)
          << message;
    }
    some->close();
  });
}

TEST(NewGroup, KnowsTheGlobalRanks) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size();
    const std::vector<int> forwards = group.ranks();  // of one that may be a part itself
    const std::vector<int> other_way(forwards.rbegin(), forwards.rend());
    const auto backwards = group.new_group(reversed(0, n));
    EXPECT_EQ(backwards->ranks(), other_way);
    EXPECT_EQ(duplicate_of(*backwards)->ranks(), other_way);
    EXPECT_EQ(backwards->global_rank(0), forwards.back());
    EXPECT_EQ(backwards->group_rank(forwards.back()), 0);
    EXPECT_EQ(backwards->global_rank(backwards->rank()), group.global_rank(group.rank()));
    // Of a group of a group, too.
    const auto one = backwards->split(backwards->rank(), 0);
    const int me = group.global_rank(group.rank());
    EXPECT_EQ(one->ranks(), std::vector<int>{me});
    EXPECT_EQ(one->group_rank(me), 0);
    EXPECT_THROW(static_cast<void>(one->group_rank(me + 1)), InputError);
    EXPECT_THROW(static_cast<void>(one->global_rank(1)), InputError);
    EXPECT_THROW(static_cast<void>(one->global_rank(-1)), InputError);
    one->close();
    backwards->close();
  });
}

TEST(NewSubgroups, AreOfNeighbours) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size(), half = n % 2 == 0 ? n / 2 : n;
    const auto mine = group.new_subgroups(half);
    EXPECT_EQ(mine->size(), half);
    EXPECT_EQ(mine->global_rank(0), group.global_rank(group.rank() / half * half));
    EXPECT_EQ(mine->rank(), group.rank() % half);
    EXPECT_THROW(static_cast<void>(group.new_subgroups(0)), InputError);
    EXPECT_THROW(static_cast<void>(group.new_subgroups(n + 1)), InputError);
    mine->close();
  });
}

TEST(NewSubgroupsByEnumeration, MakesSeveralGroupsByOneCallInTheGivenOrder) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    std::vector<int> even, odd;  // descending; the last rank is in none if there are three
    for (int r = n - 1; r >= 0; --r) {
      if (n != 3 || r != n - 1) (r % 2 == 0 ? even : odd).push_back(r);
    }
    std::vector<std::vector<int>> lists{even};
    if (!odd.empty()) lists.push_back(odd);
    const auto mine = group.new_subgroups_by_enumeration(lists);
    if (n == 3 && me == n - 1) {
      EXPECT_EQ(mine->rank(), -1);
    } else {
      const std::vector<int>& ranks = me % 2 == 0 ? even : odd;
      std::vector<int> global;
      for (const int r : ranks) global.push_back(group.global_rank(r));
      EXPECT_EQ(mine->ranks(), global);
      EXPECT_EQ(mine->rank(), std::ranges::find(ranks, me) - ranks.begin());
      mine->barrier();
    }
    mine->close();
    for (const std::vector<std::vector<int>>& wrong :
         {std::vector<std::vector<int>>{{0}, {0}}, {{n}}, {{}}, {}}) {
      EXPECT_THROW(static_cast<void>(group.new_subgroups_by_enumeration(wrong)), InputError);
    }
    if (n > 1) {
      EXPECT_THROW(static_cast<void>(group.new_subgroups_by_enumeration({{me}})), InputError);
    }
    group.barrier();
  });
}

TEST(SetName, NamesTheGroupInItsErrors) {
  test::on_every_group([](ProcessGroup& group) {
    const auto part = group.split(0, group.rank());
    EXPECT_EQ(part->name(), "");
    part->set_name("tp");
    EXPECT_EQ(part->name(), "tp");
    part->close();
    try {
      part->barrier();
      ADD_FAILURE() << "a closed group was used";
    } catch (const CommError& error) {
      EXPECT_NE(std::string(error.what()).find(" of group tp"), std::string::npos) << error.what();
    }
  });
}

TEST(NewGroup, RefusesNonexistentRanks) {
  test::on_every_group([](ProcessGroup& group) {
    for (const std::vector<int>& ranks : {std::vector<int>{}, {group.size()}, {-1}, {0, 0}}) {
      try {
        static_cast<void>(group.new_group(ranks));
        ADD_FAILURE() << "was made";
      } catch (const InputError& error) {
        EXPECT_NE(std::string(error.what()).find("different ranks from 0 to"), std::string::npos);
      }
    }
    group.barrier();
  });
}

TEST(NewGroup, RefusesListsThatDifferOnEveryRankAndLeavesTheGroupUsable) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    if (n == 1) return;
    const bool first = me < n / 2;
    const std::vector<int> half = first ? reversed(0, n / 2) : reversed(n / 2, n);
    const std::vector<int> odd_one_out = me == n - 1 ? reversed(0, n) : std::vector<int>{0, 0};
    for (const auto& ranks : {half, odd_one_out}) {
      try {
        static_cast<void>(group.new_group(ranks));
        ADD_FAILURE() << "was made";
      } catch (const InputError& error) {
        EXPECT_NE(std::string(error.what()).find("but ranks 0 and"), std::string::npos)
            << error.what();
      }
    }
    EXPECT_EQ(all_reduce_scalar(group, 1.0, ReduceOp::sum), n);
  });
}

TEST(Split, GroupsEqualColoursByKeyThenRank) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    const auto parity = group.split(me % 2, -me);
    std::vector<int> expected;
    for (int r = n; r-- > 0;) {
      if (r % 2 == me % 2) expected.push_back(r);
    }
    EXPECT_EQ(all_names(*parity, me), names(expected));

    const auto by_rank = group.split(1000000, 5);  // equal keys
    std::ranges::sort(expected);
    EXPECT_EQ(by_rank->rank(), me);
    EXPECT_EQ(by_rank->size(), n);
  });
}

TEST(Split, LeavesOutNegativeColours) {
  test::on_every_group([](ProcessGroup& group) {
    const bool out = group.rank() == group.size() - 1;
    const auto rest = group.split(out ? -1 : 3, 0);
    EXPECT_EQ(rest->rank() < 0, out);
    if (!out) {
      EXPECT_EQ(all_reduce_scalar(*rest, 1.0, ReduceOp::sum), group.size() - 1);
    }
    EXPECT_EQ(group.split(-7, 0)->rank(), -1);
  });
}

TEST(Subgroups, OfDistinctMembersAreInFlightTogether) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    // Two ways to cut the same ranks, and everybody: three groups a rank.
    const auto half = group.split(me < n / 2 ? 0 : 1, me);
    const auto parity = group.split(me % 2, me);
    constexpr std::int64_t length = 5000;
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      for (ProcessGroup* each : {half.get(), &group, parity.get()}) {
        tensors.push_back(Tensor::full({length}, i + 1));
        works.push_back(each->all_reduce(tensors.back(), ReduceOp::sum));
      }
    }
    for (std::size_t w = works.size(); w-- > 0;) works[w].wait();
    for (std::size_t w = 0; w < works.size(); ++w) {
      const int size = w % 3 == 0 ? half->size() : w % 3 == 1 ? n : parity->size();
      const int expected = size * static_cast<int>(w / 3 + 1);
      EXPECT_EQ(tensors[w].to_vector<float>().back(), static_cast<float>(expected));
    }
  });
}

TEST(Subgroups, KeepTheirMessagesApart) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    const auto same = group.new_group(reversed(0, n));
    const int to = (me + 1) % n, from = (me + n - 1) % n;
    const auto here = Tensor::zeros({3}), there = Tensor::zeros({3});
    std::vector<Work> works;
    works.push_back(group.irecv(here, from, 1));
    works.push_back(same->irecv(there, n - 1 - from, 1));
    works.push_back(same->isend(Tensor::full({3}, 1000 + me), n - 1 - to, 1));
    works.push_back(group.isend(Tensor::full({3}, me), to, 1));
    for (Work& work : works) work.wait();
    EXPECT_EQ(here.to_vector<float>().back(), static_cast<float>(from));
    EXPECT_EQ(there.to_vector<float>().back(), static_cast<float>(1000 + from));
  });
}

TEST(Subgroups, AreSplitAgain) {
  test::on_every_group([](ProcessGroup& group) {
    const int me = group.rank();
    const auto backwards = group.new_group(reversed(0, group.size()));
    const auto parity = backwards->split(backwards->rank() % 2, 0);
    const auto pair = parity->new_group(std::vector<int>{0});
    EXPECT_EQ(pair->rank() >= 0, parity->rank() == 0);
    std::vector<int> expected;
    for (int r = 0; r < backwards->size(); ++r) {
      if (r % 2 == backwards->rank() % 2) expected.push_back(group.size() - 1 - r);
    }
    EXPECT_EQ(all_names(*parity, me), names(expected));
  });
}

TEST(Subgroups, HaveSharedBuffersOfTheirOwn) {
  test::on_every_group([](ProcessGroup& group) {
    const auto parity = group.split(group.rank() % 2, 0);
    const auto t = parity->shared_buffer({4000}, DType::f32);
    EXPECT_EQ(t.to_vector<float>(), std::vector<float>(4000));
    t.fill(1);
    parity->all_reduce(t, ReduceOp::sum).wait();
    EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(parity->size()));
    // For another group it is as any other tensor.
    group.broadcast(t, 0).wait();
    const int evens = (group.size() + 1) / 2;
    EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(evens));
  });
}

TEST(Subgroups, OutliveTheGroupTheyWereCutFrom) {
  test::on_every_new_group([](ProcessGroup& group) {
    const auto all = group.new_group(reversed(0, group.size()));
    group.close();
    EXPECT_EQ(all_reduce_scalar(*all, 1.0, ReduceOp::sum), all->size());
    all->close();
    EXPECT_THROW(all->barrier(), CommError);
    EXPECT_THROW(static_cast<void>(all->split(0, 0)), CommError);
  });
}

TEST(Twin, IsOneGroupOfTheSameRanksThatIsClosedWithItsOwn) {
  test::on_every_new_group([](ProcessGroup& group) {
    const auto duplicate = duplicate_of(group);
    EXPECT_EQ(duplicate_of(group), duplicate);
    EXPECT_EQ(duplicate->rank(), group.rank());
    EXPECT_EQ(duplicate->size(), group.size());
    // Their calls keep no order: the last rank makes them the other way round.
    const auto here = Tensor::full({3}, 1), there = Tensor::full({5}, 2);
    ProcessGroup* groups[] = {&group, duplicate.get()};
    const Tensor* tensors[] = {&here, &there};
    std::vector<Work> works;
    for (int i = 0; i < 2; ++i) {
      const int at = group.rank() == group.size() - 1 ? 1 - i : i;
      works.push_back(groups[at]->all_reduce(*tensors[at], ReduceOp::sum));
    }
    for (Work& work : works) work.wait();
    EXPECT_EQ(here.to_vector<float>()[2], static_cast<float>(group.size()));
    EXPECT_EQ(there.to_vector<float>()[4], static_cast<float>(2 * group.size()));
    group.close();
    EXPECT_THROW(duplicate->barrier(), CommError);
    EXPECT_THROW(static_cast<void>(duplicate_of(group)), CommError);
  });
}

TEST(Subgroups, ThatFailLeaveTheOthersAlone) {
  test::on_every_group([](ProcessGroup& group) {
    const auto failing = group.split(0, -group.rank());
    const auto other = group.split(0, 0);
    if (group.size() > 1) {
      const auto t = Tensor::zeros({group.rank() == 0 ? 3 : 5});
      EXPECT_THROW(failing->all_reduce(t, ReduceOp::sum).wait(), Error);
      EXPECT_THROW(failing->barrier(), Error);
    }
    EXPECT_EQ(all_reduce_scalar(group, 1.0, ReduceOp::sum), group.size());
    EXPECT_EQ(all_reduce_scalar(*other, 2.0, ReduceOp::sum), 2 * group.size());
    const auto later = group.split(0, -group.rank());
    EXPECT_EQ(all_names(*later, group.rank()), names(reversed(0, group.size())));
  });
}

TEST(Subgroups, AreMadeAndClosedOverAndOver) {
  test::on_every_group([](ProcessGroup& group) {
    for (int i = 0; i < 10; ++i) {
      const auto some = group.split(group.rank() % 2, 0);
      some->barrier();
      some->close();
    }
  });
}

}  // namespace
}  // namespace lockstep
