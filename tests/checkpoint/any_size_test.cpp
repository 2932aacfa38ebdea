// Any number of ranks reads files of any other number; each rank reads its parts, whatever the cuts
// of either side.
#include <gtest/gtest.h>

#include <fstream>

#include <checkpoint/sample.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <support/rank_counts.hpp>

namespace lockstep {
namespace {

using test::part_of;
using test::pattern;
using test::scratch;

/// Rows by columns of ranks, as square as possible.
Region tile(const Shape& shape, int rank, int ranks) {
  const int down = ranks % 2 == 0 ? 2 : 1, across = ranks / down;
  const auto cut = [](std::int64_t extent, int at, int parts) {
    return std::pair(extent * at / parts, extent * (at + 1) / parts - extent * at / parts);
  };
  const auto [row, rows] = cut(shape[0], rank / across, down);
  const auto [column, columns] = cut(shape[1], rank % across, across);
  return {{row, column, 0}, {rows, columns, shape[2]}};
}

Region of_owner(const Shape& shape, bool owns) {
  return owns ? Region::whole(shape) : Region{Region::whole(shape).offsets, shape.with_leading(0)};
}

/// A state with every kind of placement. `other` cuts it differently, as for a reader with other
/// cuts than the writer's.
CheckpointContents state_of(int rank, int ranks, bool other = false) {
  CheckpointContents contents;
  const auto add = [&](StateDict& state, const std::string& name, const Tensor& whole,
                       const Region& region) {
    const auto [part, placement] = part_of(whole, region);
    state.insert(name, part, placement);
  };
  const auto rows = [&](const Shape& shape) {
    const std::int64_t begin = shape[0] * rank / ranks;
    return Region{{begin, 0}, {shape[0] * (rank + 1) / ranks - begin, shape[1]}};
  };
  const auto columns = [&](const Shape& shape) { return test::columns(shape, rank, ranks); };
  const Shape matrix{7, 11};
  static const Tensor several_slabs = pattern({1300, 1000});
  contents.model.insert("replicated", several_slabs);
  contents.model.insert("scalar", Tensor::full({}, 3.5));
  add(contents.model, "rows", pattern(matrix, 100), other ? columns(matrix) : rows(matrix));
  add(contents.model, "columns", pattern(matrix, 200), other ? rows(matrix) : columns(matrix));
  add(contents.model, "tiles", pattern({6, 9, 4}, 300), tile({6, 9, 4}, rank, ranks));
  add(contents.model, "owned", pattern(matrix, 400),
      of_owner(matrix, rank == (other ? ranks - 1 : 0)));
  // Halves, each on several ranks.
  const int half = ranks == 1 ? 0 : rank % 2, halves = ranks == 1 ? 1 : 2;
  add(contents.model, "halves", pattern({5, 8}, 500), test::columns({5, 8}, half, halves));
  // The ranks of a half share out its elements: columns, and rows of each of two parts.
  const auto add_run = [&](const std::string& name, const Tensor& part,
                           const Placement& placement) {
    const int sharing = halves == 1 ? 1 : (ranks + 1 - half) / 2, index = rank / halves;
    const std::int64_t all = part.numel(), at = other ? 1 : 0;  // another cut
    const auto cut = [&](int i) {
      return i == 0 ? 0 : i == sharing ? all : std::min(all, all * i / sharing + at);
    };
    contents.model.insert(name, part.reshape({all}).slice(cut(index), cut(index + 1)),
                          Placement::flat_run_of(placement, part.shape(), cut(index)));
  };
  const auto [of_columns, columns_placement] =
      part_of(pattern({5, 8}, 700), test::columns({5, 8}, half, halves));
  add_run("runs of columns", of_columns, columns_placement);
  const Tensor doubled = pattern({2, 8, 3}, 800);  // two parts of 8 rows
  const auto [of_parts, parts_placement] =
      part_of(doubled, {{0, half * (8 / halves), 0}, {2, 8 / halves, 3}});
  Placement by_parts = Placement::slab({16, 3}, {half * (8 / halves), 0});
  by_parts.parts = 2;
  add_run("runs of parts", of_parts.reshape({16 / halves, 3}), by_parts);
  add(contents.optimizer, "columns/momentum_buffer", pattern(matrix, 600), columns(matrix));
  contents.train.step = 1;
  contents.deck = "deck";
  return contents;
}

/// All of it, whole.
void expect_whole(const CheckpointContents& got) {
  for (const auto& [name, tensor, placement] : state_of(0, 1).model) {
    const Tensor& whole = got.model.at(name);
    EXPECT_EQ(whole.shape(), placement.sharded ? placement.global : tensor.shape()) << name;
    EXPECT_TRUE(test::same_bits(whole.reshape(tensor.shape()), tensor)) << name;
  }
}

class AnySizeAndCompression : public testing::TestWithParam<Compression> {};
INSTANTIATE_TEST_SUITE_P(Each, AnySizeAndCompression,
                         testing::Values(Compression::none, Compression::deflate));

TEST_P(AnySizeAndCompression, OneToFiveRanksReadTheirPartsOfFilesOfOneToFiveInAnyCut) {
  for (const int writers : test::counts_of_threads(5)) {
    const auto path = scratch("any-size") / "a.h5";
    run_ranks_as_threads(writers, [&](ProcessGroup& group) {
      CheckpointWriter(GetParam()).save(group, path, state_of(group.rank(), group.size()));
    });
    verify_checkpoint(path);
    expect_whole(load_checkpoint(path));
    for (const int readers : test::counts_of_threads(5)) {
      run_ranks_as_threads(readers, [&](ProcessGroup& group) {
        for (const bool other : {false, true}) {
          const auto mine = state_of(group.rank(), group.size(), other);
          const auto got = load_checkpoint(group, path, mine.model, mine.optimizer);
          test::expect_same_bits(got.model, mine.model);
          test::expect_same_bits(got.optimizer, mine.optimizer);
          for (const auto& entry : mine.model)
            EXPECT_EQ(got.model.find(entry.name)->placement, entry.placement) << entry.name;
          EXPECT_EQ(got.train, mine.train);
          EXPECT_EQ(got.deck, mine.deck);
        }
        if (readers == 3) expect_whole(load_checkpoint(group, path));
      });
    }
  }
}

/// With the same names, shapes and placements, in memory of this rank.
StateDict zeros_like(const StateDict& state) {
  StateDict zeros;
  for (const auto& [name, tensor, placement] : state)
    zeros.insert(name, Tensor::zeros(tensor.shape(), tensor.dtype()), placement);
  return zeros;
}

TEST(AnySize, InPlaceTheReadersOwnTensorsHoldTheFilesContents) {
  const auto path = scratch("any-in-place") / "a.h5";
  run_ranks_as_threads(3, [&](ProcessGroup& group) {
    CheckpointWriter().save(group, path, state_of(group.rank(), group.size()));
  });
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    const auto want = state_of(group.rank(), group.size());
    const StateDict model = zeros_like(want.model), optimizer = zeros_like(want.optimizer);
    const auto got = load_checkpoint_in_place(group, path, model, optimizer);
    test::expect_same_bits(model, want.model);
    test::expect_same_bits(optimizer, want.optimizer);
    for (const auto& entry : model)
      EXPECT_EQ(got.model.at(entry.name).data(), entry.tensor.data()) << entry.name;
    copy_state(got.model, model);
    test::expect_same_bits(model, want.model);

    StateDict other;
    const auto misfit = Tensor::zeros({4, 5});
    other.insert("rows", misfit);
    EXPECT_EQ(load_checkpoint_in_place(group, path, other).model.at("rows").shape(),
              (Shape{7, 11}));
  });
}

TEST(AnySize, UnfitTensorsComeWholeSoThatTheyCanBeNamed) {
  const auto path = scratch("any-misfit") / "a.h5";
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    CheckpointWriter().save(group, path, state_of(group.rank(), group.size()));
    StateDict other;
    const auto part = Tensor::zeros({4, 5});
    other.insert("rows", part, Placement::rows(part, group.rank() * 4, 8));
    const auto got = load_checkpoint(group, path, other);
    EXPECT_EQ(got.model.at("rows").shape(), (Shape{7, 11}));
    EXPECT_THROW(copy_state(got.model, other), Error);
  });
}

/// Bytes that this thread has read from files.
std::int64_t bytes_read() {
  std::ifstream io("/proc/thread-self/io");
  std::string key;
  std::int64_t value = -1;
  if (!(io >> key >> value) || key != "rchar:") throw Error("no /proc/thread-self/io");
  return value;
}

constexpr std::int64_t mib = 1 << 20;

/// 16 MiB cut by rows, 16 by columns, and 16 that every rank needs whole.
CheckpointContents three_kinds(int rank, int ranks) {
  CheckpointContents contents;
  const Shape shape{2048, 2048};
  const auto rows = Tensor::zeros({shape[0] / ranks, shape[1]});
  contents.model.insert("rows", rows, Placement::rows(rows, rank * rows.size(0), shape[0]));
  const auto columns = Tensor::zeros({shape[0], shape[1] / ranks});
  contents.model.insert("columns", columns, Placement::slab(shape, {0, rank * columns.size(1)}));
  contents.model.insert("replicated", Tensor::zeros(shape));
  return contents;
}

TEST(AnySize, ARankReadsItsPartsAndItsShareOfTheRestAndNoMore) {
  const auto path = scratch("any-io") / "a.h5";
  run_ranks_as_threads(4, [&](ProcessGroup& group) {
    const auto mine = three_kinds(group.rank(), group.size());
    CheckpointWriter().save(group, path, mine);
    const auto before = bytes_read();
    static_cast<void>(load_checkpoint(group, path, mine.model));
    const auto read = bytes_read() - before;
    EXPECT_GE(read, 12 * mib);
    EXPECT_LT(read, 12 * mib + mib / 4) << "4 MiB of each of three tensors";
  });
  FakeGroup one_of_many(4096, 3071);
  const auto mine = three_kinds(511, 512);  // of 512 bytes held in eight copies
  const auto before = bytes_read();
  static_cast<void>(load_checkpoint(one_of_many, path, mine.model));
  // The whole slabs that contain its parts; no share of replicated state.
  EXPECT_LT(bytes_read() - before, 8 * mib + mib / 4);
}

}  // namespace
}  // namespace lockstep
