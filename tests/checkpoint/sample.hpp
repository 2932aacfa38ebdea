#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/file/region.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/comm/threads_group.hpp>

namespace lockstep::test {

/// Distinct elements, so that misplaced bytes are detected.
inline Tensor pattern(const Shape& shape, float first = 0) {
  std::vector<float> elements(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = first + static_cast<float>(i);
  return Tensor::from(elements, shape);
}

/// This rank's rows of `whole`, of different sizes, some possibly zero.
inline std::pair<Tensor, Placement> shard(const Tensor& whole, int rank, int ranks) {
  const std::int64_t rows = whole.size(0);
  const std::int64_t begin = rows * rank / ranks, end = rows * (rank + 1) / ranks;
  const Tensor part = whole.slice(begin, end);
  return {part, Placement::rows(part, begin, rows)};
}

/// A part of `whole`, element by element.
inline std::pair<Tensor, Placement> part_of(const Tensor& whole, const Region& region) {
  const auto elements = whole.to_vector<float>();
  std::vector<float> part;
  std::vector<std::int64_t> at(static_cast<std::size_t>(whole.dims()), 0);
  for (std::int64_t i = 0; i < region.sizes.numel(); ++i) {
    std::int64_t index = 0;
    for (int d = 0; d < whole.dims(); ++d)
      index = index * whole.size(d) + region.offsets[d] + at[static_cast<std::size_t>(d)];
    part.push_back(elements[static_cast<std::size_t>(index)]);
    for (int d = whole.dims() - 1; d >= 0 && ++at[static_cast<std::size_t>(d)] == region.sizes[d];
         --d)
      at[static_cast<std::size_t>(d)] = 0;
  }
  return {Tensor::from(part, region.sizes), Placement::slab(whole.shape(), region.offsets)};
}

/// This rank's share of the last dimension of a tensor.
inline Region columns(const Shape& shape, int rank, int ranks) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(shape.dims()), 0);
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  const std::int64_t all = sizes.back(), begin = all * rank / ranks;
  offsets.back() = begin;
  sizes.back() = all * (rank + 1) / ranks - begin;
  return {Shape(offsets), Shape(sizes)};
}

/// Contents with every dtype that has a tensor maker, a scalar, an empty tensor, one larger than a
/// slab, and two sharded ones. The same for any number of ranks.
inline CheckpointContents sample(int rank = 0, int ranks = 1, float first = 0) {
  CheckpointContents contents;
  contents.model.insert("conv1.weight", pattern({10, 1, 5, 5}, first));
  contents.model.insert("conv1.bias", pattern({10}, first + 1));
  contents.model.insert("fc.weight", pattern({1200, 1000}, first + 2));
  contents.model.insert("count", Tensor::full({}, 1234567, DType::i64));
  contents.model.insert("empty", Tensor::zeros({0, 3}));
  const auto [rows, placement] = shard(pattern({7, 3}, first + 3), rank, ranks);
  contents.model.insert("table", rows, placement);
  contents.optimizer.insert("conv1.weight/momentum_buffer", pattern({10, 1, 5, 5}, first + 4));
  const auto [few, few_placement] = shard(pattern({2, 2}, first + 5), rank, ranks);
  contents.optimizer.insert("table/momentum_buffer", few, few_placement);
  contents.train = {938, 2, 17, 1234, {{"loss", 0.1 + 0.2}}, {{"correct", 1LL << 60}}};
  contents.deck = "[train]\nepochs = 2\n";
  contents.metadata = {{"onednn", "2.6.3"}, {"empty", ""}};
  return contents;
}

/// In bulk: element by element is slow under sanitizers.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.numel() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

inline void expect_same_bits(const StateDict& got, const StateDict& want) {
  ASSERT_EQ(got.size(), want.size());
  for (auto g = got.begin(), w = want.begin(); w != want.end(); ++g, ++w) {
    EXPECT_EQ(g->name, w->name);
    EXPECT_EQ(g->tensor.shape(), w->tensor.shape()) << w->name;
    EXPECT_EQ(g->tensor.dtype(), w->tensor.dtype()) << w->name;
    EXPECT_TRUE(same_bits(g->tensor, w->tensor)) << w->name;
  }
}

/// Whether `got` equals sample(0, 1, first).
inline void expect_sample(const CheckpointContents& got, float first = 0) {
  const auto want = sample(0, 1, first);
  expect_same_bits(got.model, want.model);
  expect_same_bits(got.optimizer, want.optimizer);
  EXPECT_EQ(got.train, want.train);
  EXPECT_EQ(got.deck, want.deck);
}

/// The message thrown by `f`; empty if there is none. Anything but a CheckpointError fails the
/// test.
template <class F>
std::string checkpoint_error_of(F&& f) {
  try {
    f();
  } catch (const CheckpointError& e) {
    EXPECT_EQ(e.exit_code(), ExitCode::checkpoint);
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "not a CheckpointError: " << e.what();
    return e.what();
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A path unique to this test and process. Nothing exists there; anything created is removed when
/// the process ends. Call it from one thread.
inline std::filesystem::path scratch(const std::string& name) {
  struct Folder {
    std::filesystem::path path = std::filesystem::path(testing::TempDir()) /
                                 ("lockstep-checkpoint-" + std::to_string(::getpid()));
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  std::filesystem::remove_all(folder.path / name);
  return folder.path / name;
}

/// With the step in the path's name, or else sample()'s.
inline void save_on_threads(const std::filesystem::path& path, int ranks, float first = 0) {
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    CheckpointContents contents = sample(group.rank(), group.size(), first);
    contents.train.step = step_of(path).value_or(contents.train.step);
    CheckpointWriter().save(group, path, contents);
  });
}

}  // namespace lockstep::test
