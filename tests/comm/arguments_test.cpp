// Invalid arguments are refused with a message before anything is sent: the group stays usable.
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/tensors.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

using test::Counts;

/// Expects a ShapeError that says each of `parts`.
void refused(const std::function<Work()>& call, const std::vector<std::string>& parts) {
  try {
    static_cast<void>(call());
    ADD_FAILURE() << "was not refused";
  } catch (const ShapeError& error) {
    const std::string message = error.what();
    for (const auto& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

/// After each claim every rank takes part in one more collective.
void on_every_group(const test::Claim& claim) {
  test::on_every_group([&](ProcessGroup& group) {
    claim(group);
    const auto t = Tensor::full({600}, 1.0);
    group.all_reduce(t, ReduceOp::sum).wait();
    EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(group.size()));
  });
}

std::string ranks_to(const ProcessGroup& group) {
  return "the group's ranks are 0 to " + std::to_string(group.size() - 1);
}

TEST(Arguments, MustBeTensors) {
  on_every_group([](ProcessGroup& group) {
    const Tensor none, t = Tensor::zeros({1, 2}), rows = Tensor::zeros({group.size(), 1, 2});
    const Counts ones(static_cast<std::size_t>(group.size()), 1);
    const int me = group.rank();
    const std::string what = "is not a tensor (default-constructed)";
    refused([&] { return group.all_reduce(none, ReduceOp::sum); }, {"all_reduce: its input", what});
    refused([&] { return group.all_reduce(t, none, ReduceOp::sum); }, {"its output", what});
    refused([&] { return group.reduce(none, me, ReduceOp::sum); }, {"reduce: its input", what});
    refused([&] { return group.reduce(t, none, me, ReduceOp::sum); }, {"the root's output", what});
    refused([&] { return group.broadcast(none, 0); }, {"broadcast: its argument", what});
    refused([&] { return group.all_gather(t, none); }, {"all_gather: its output", what});
    refused([&] { return group.all_gather(none, rows); }, {"all_gather: its input", what});
    refused([&] { return group.all_gather_v(t, none, ones); }, {"all_gather_v: its output", what});
    refused([&] { return group.gather(t, none, me); }, {"gather: the root's output", what});
    refused([&] { return group.gather_v(t, none, ones, me); }, {"gather_v", what});
    refused([&] { return group.scatter(none, t, me); }, {"scatter: the root's input", what});
    refused([&] { return group.scatter_v(none, t, ones, me); }, {"scatter_v", what});
    refused([&] { return group.reduce_scatter(none, t, ReduceOp::sum); }, {"reduce_scatter", what});
    refused([&] { return group.reduce_scatter_v(none, t, ones, ReduceOp::sum); }, {"_v", what});
    refused([&] { return group.all_to_all(rows, none); }, {"all_to_all: its output", what});
    refused([&] { return group.all_to_all_v(none, t, ones, ones); }, {"all_to_all_v", what});
    refused([&] { return group.isend(none, 0); }, {"send: its argument", what});
    refused([&] { return group.irecv(none, 0); }, {"recv: its argument", what});
  });
}

TEST(Arguments, RootsAndPeersMustBeRanksOfTheGroup) {
  on_every_group([](ProcessGroup& group) {
    const Tensor t = Tensor::zeros({2}), rows = Tensor::zeros({group.size(), 2});
    const Counts ones(static_cast<std::size_t>(group.size()), 1);
    for (const int root : {-1, group.size()}) {
      const std::string with = "with root " + std::to_string(root) + ": " + ranks_to(group);
      refused([&] { return group.broadcast(t, root); }, {"broadcast " + with});
      refused([&] { return group.reduce(t, root, ReduceOp::sum); }, {"reduce " + with});
      refused([&] { return group.gather(t, rows, root); }, {"gather " + with});
      refused([&] { return group.gather_v(t, rows, ones, root); }, {"gather_v " + with});
      refused([&] { return group.scatter(rows, t, root); }, {"scatter " + with});
      refused([&] { return group.scatter_v(rows, t, ones, root); }, {"scatter_v " + with});
    }
    const std::string peer = "names rank " + std::to_string(group.size()) + " as its peer";
    refused([&] { return group.isend(t, group.size()); }, {"send " + peer, ranks_to(group)});
    refused([&] { return group.irecv(t, group.size()); }, {"recv " + peer, ranks_to(group)});
    refused([&] { return group.isend(t, any_source); }, {"send names rank -1 as its peer"});
    refused([&] { return group.irecv(t, -2); }, {"recv names rank -2 as its peer"});
    refused([&] { return group.isend(t, 0, -1); }, {"send with tag -1: tags are 0 to 131071"});
    refused([&] { return group.irecv(t, 0, message_tags); }, {"recv with tag 131072"});
  });
}

TEST(Arguments, MustBeOfADtypeThatTheReductionTakes) {
  on_every_group([](ProcessGroup& group) {
    const int n = group.size();
    const auto whole = Tensor::zeros({4}, DType::i32), bits = Tensor::zeros({4}, DType::boolean);
    const auto half = Tensor::empty({4}, DType::bf16), rows = Tensor::zeros({n, 4}, DType::i32);
    refused([&] { return group.all_reduce(whole, ReduceOp::avg); },
            {"all_reduce(avg) takes f64, f32, f16 or bf16, not i32[4]"});
    refused([&] { return group.all_reduce(bits, ReduceOp::avg); }, {"not bool[4]"});
    refused([&] { return group.reduce(half, 0, ReduceOp::band); },
            {"reduce(band) takes i64, i32, u8 or bool, not bf16[4]"});
    refused([&] { return group.reduce_scatter(rows, whole, ReduceOp::avg); },
            {"reduce_scatter(avg) takes"});
  });
}

TEST(Arguments, MustFitTogether) {
  on_every_group([](ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    const auto size = std::to_string(n);
    const auto t = Tensor::zeros({4, 2}), rows = Tensor::zeros({n, 4, 2});
    const auto flat = Tensor::zeros({n, 8}), many = Tensor::zeros({n + 1, 4, 2});
    const auto wide = Tensor::zeros({n, 4, 2}, DType::f64);
    refused(
        [&] {
          return group.all_reduce(t, Tensor::zeros({2, 4}), ReduceOp::sum);
        },
        {"all_reduce of f32[4, 2]", "into f32[2, 4]", "the input's shape and dtype"});
    refused(
        [&] {
          return group.reduce(t, Tensor::zeros({4, 2}, DType::f64), me, ReduceOp::sum);
        },
        {"reduce of f32[4, 2]", "into f64[4, 2]"});
    for (const Tensor& all : {flat, many, wide}) {
      const std::vector<std::string> parts = {describe(t), describe(all), "a leading " + size};
      refused([&] { return group.all_gather(t, all); }, parts);
      refused([&] { return group.gather(t, all, me); }, parts);
      refused([&] { return group.scatter(all, t, me); }, parts);
      refused([&] { return group.reduce_scatter(all, t, ReduceOp::sum); }, parts);
    }
    refused(
        [&] {
          return group.all_to_all(many, Tensor::zeros({n + 1, 4, 2}));
        },
        {"all_to_all: its input is " + describe(many)});
    refused([&] { return group.all_to_all(rows, flat); }, {"all_to_all of " + describe(rows)});
    refused([&] { return group.all_to_all(Tensor::zeros({}), Tensor::zeros({})); }, {"f32[]"});
  });
}

TEST(Arguments, CountsMustBeOneARankAndMakeTheRows) {
  on_every_group([](ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    const Counts twos(static_cast<std::size_t>(n), 2);
    Counts more = twos, negative = twos, longer = twos;
    more.push_back(2);
    negative[0] = -2;
    longer[static_cast<std::size_t>(me)] = 3;
    const auto part = Tensor::zeros({2, 5}), all = Tensor::zeros({2 * n, 5});
    const auto narrow = Tensor::zeros({2 * n, 4});
    for (const Counts& counts : {more, negative}) {
      const std::string needed = std::to_string(n) + " counts, one per rank, none negative";
      refused([&] { return group.all_gather_v(part, all, counts); }, {"all_gather_v", needed});
      refused([&] { return group.gather_v(part, all, counts, 0); }, {"gather_v", needed});
      refused([&] { return group.scatter_v(all, part, counts, 0); }, {"scatter_v", needed});
      refused([&] { return group.reduce_scatter_v(all, part, counts, ReduceOp::sum); }, {needed});
      refused([&] { return group.all_to_all_v(all, all.clone(), counts, twos); }, {needed});
      refused([&] { return group.all_to_all_v(all, all.clone(), twos, counts); }, {needed});
    }
    const std::string share = "but rank " + std::to_string(me) + "'s count is 3 rows";
    refused([&] { return group.all_gather_v(part, all, longer); },
            {"its input is f32[2, 5]", share});
    refused([&] { return group.gather_v(part, all, longer, me); }, {share});
    refused([&] { return group.scatter_v(all, part, longer, me); }, {"its output", share});
    refused([&] { return group.reduce_scatter_v(all, part, longer, ReduceOp::sum); }, {share});
    const auto rows = "make " + std::to_string(2 * n) + " rows";
    const auto shorter = all.slice(0, 2 * n - 1);
    refused([&] { return group.all_gather_v(part, shorter, twos); }, {"its output is", rows});
    refused([&] { return group.gather_v(part, shorter, twos, me); }, {"the root's output", rows});
    refused([&] { return group.scatter_v(shorter, part, twos, me); }, {"the root's input", rows});
    refused([&] { return group.reduce_scatter_v(shorter, part, twos, ReduceOp::sum); }, {rows});
    refused([&] { return group.all_to_all_v(shorter, all.clone(), twos, twos); }, {rows});
    refused([&] { return group.all_to_all_v(all, shorter.clone(), twos, twos); }, {rows});
    const std::string leading = "they may differ in their leading dimension only";
    refused([&] { return group.all_gather_v(part, narrow, twos); }, {leading});
    refused([&] { return group.gather_v(part, narrow, twos, me); }, {leading});
    refused([&] { return group.scatter_v(narrow, part, twos, me); }, {leading});
    refused([&] { return group.reduce_scatter_v(narrow, part, twos, ReduceOp::sum); }, {leading});
    refused([&] { return group.all_to_all_v(all, narrow, twos, twos); }, {leading});
    refused([&] { return group.all_to_all_v(Tensor::zeros({}), narrow, twos, twos); }, {leading});
  });
}

// Half of the input would be overwritten before it has been read.
TEST(Arguments, MustBeTheSameMemoryOrApart) {
  on_every_group([](ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    const auto memory = Tensor::zeros({2 * n + 2, 4});
    const auto flat = memory.reshape({8 * n + 8});
    const Counts ones(static_cast<std::size_t>(n), 1);
    const auto rows = memory.slice(0, n);
    const auto shifted = flat.slice(2, 4 * n + 2).reshape({n, 4});
    const auto elsewhere = flat.slice(me * 4 + 2, me * 4 + 6);
    const std::string overlap = "they overlap in memory";
    refused([&] { return group.all_reduce(rows, shifted, ReduceOp::sum); }, {overlap});
    refused([&] { return group.reduce(rows, shifted, me, ReduceOp::sum); }, {overlap});
    refused([&] { return group.all_gather(elsewhere, rows); }, {overlap});
    refused([&] { return group.all_gather_v(elsewhere.reshape({1, 4}), rows, ones); }, {overlap});
    refused([&] { return group.gather(elsewhere, rows, me); }, {overlap});
    refused([&] { return group.scatter(rows, elsewhere, me); }, {overlap});
    refused([&] { return group.reduce_scatter(rows, elsewhere, ReduceOp::sum); }, {overlap});
    refused([&] { return group.all_to_all(rows, rows); }, {overlap});
    refused([&] { return group.all_to_all_v(rows, rows, ones, ones); }, {overlap});
  });
}

}  // namespace
}  // namespace lockstep
