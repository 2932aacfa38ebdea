// Borders between replicated and divided values, and the loss over a divided vocabulary: values and
// derivatives are those of one rank.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/message_of.hpp>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/parallel/tensor/regions.hpp>
#include <lockstep/parallel/tensor/vocabulary.hpp>

#include "undivided.hpp"

namespace lockstep {
namespace {

using test::max_difference;
using test::message_of;
using test::wave;

class TensorParallelRegions : public testing::TestWithParam<int> {};

/// A rank's part of `extent` elements.
Slice share(int rank, int ranks, std::int64_t extent) {
  const std::int64_t first = extent * rank / ranks;
  return {first, extent * (rank + 1) / ranks - first};
}
Slice share(const GroupPtr& group, std::int64_t extent) {
  return share(group->rank(), group->size(), extent);
}

/// First and second derivatives by x of a loss that every rank has.
void expect_same(const std::function<Variable(const Variable&)>& divided,
                 const std::function<Variable(const Variable&)>& whole, const Tensor& at,
                 const char* what) {
  const auto derivatives = [&](const auto& loss) {
    const Variable x(at.clone(), true);
    const Variable y = loss(x);
    const Variable slope = grad(y, x, {.create_graph = true});
    sum(pow(slope, 2.0) * Variable(wave(at.shape(), 0.9))).backward();
    return std::vector<Tensor>{y.data(), slope.data(), x.grad()};
  };
  const auto actual = derivatives(divided), expected = derivatives(whole);
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_LE(max_difference(actual[i], expected[i]), 1e-12) << what << ", derivative " << i;
}

TEST_P(TensorParallelRegions, HaveTheDerivativesOfOneRank) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const std::int64_t extent = 12;
    const auto all = [](const Variable& x) {
      return sum(pow(x, 3.0) * Variable(wave(x.shape(), 0.1)));
    };
    for (const int dim : {0, 1, -1}) {
      const Tensor at = wave({extent, extent, extent}, 0.3);
      const Slice mine = share(group, extent);
      const auto weight_of = [&](const Variable& x) {
        return narrow(Variable(wave(at.shape(), 0.1)), dim, mine.first, x.shape()[dim]);
      };
      // Each rank cubes a part; the parts' sums are added.
      expect_same(
          [&](const Variable& x) {
            const Variable part = scatter_to_group(x, dim, mine.first, mine.count, group);
            return reduce_from_group(sum(pow(part, 3.0) * weight_of(part)), group);
          },
          all, at, "scatter and reduce");
      // The part is gathered, and all ranks cube the whole.
      expect_same(
          [&](const Variable& x) {
            const Variable part = scatter_to_group(x, dim, mine.first, mine.count, group);
            return all(gather_from_group(part, dim, mine.first, extent, group));
          },
          all, at, "scatter and gather");
      if (extent % group->size() != 0) continue;
      // Ranks hold slabs, each multiplies the whole by its part of a sum, and gets a slab of it.
      const double part = 1.0 / group->size();
      expect_same(
          [&](const Variable& x) {
            const Variable slab = scatter_to_group(x, dim, mine.first, mine.count, group);
            const Variable gathered = all_gather_along(slab, dim, group) * part;
            const Variable y = reduce_scatter_along(gathered, dim, group);
            return reduce_from_group(sum(pow(y, 3.0) * weight_of(y)), group);
          },
          all, at, "all_gather and reduce_scatter");
    }
  });
}

TEST_P(TensorParallelRegions, RefuseUnequalSlabs) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    if (group->size() == 1) return;
    const Variable x(wave({3, 11}, 0.1));
    if (11 % group->size() == 0) return;
    EXPECT_EQ(message_of<ShapeError>([&] { static_cast<void>(reduce_scatter_along(x, 1, group)); }),
              "reduce_scatter_along: the " + std::to_string(group->size()) +
                  " ranks must divide the extent of 11 that they share out");
  });
}

struct Vocabulary {
  std::int64_t classes;
  LossOptions options;
};

std::vector<Vocabulary> vocabularies() {
  std::vector<Vocabulary> all;
  for (const std::int64_t classes : {8, 11}) {
    Tensor weight = wave({classes}, 0.4);
    weight += 1.5;
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      all.push_back({classes, {.reduction = reduction}});
      all.push_back({classes, {.reduction = reduction, .ignore_index = 2}});
      all.push_back({classes, {.reduction = reduction, .label_smoothing = 0.3}});
      all.push_back({classes,
                     {.reduction = reduction,
                      .class_weight = weight,
                      .ignore_index = 4,
                      .label_smoothing = 0.2}});
    }
  }
  return all;
}

Tensor targets(std::int64_t classes) {
  std::vector<std::int64_t> t;
  for (std::int64_t i = 0; i < 15; ++i) t.push_back((i * i + 3 * i) % classes);
  return Tensor::from(t, {3, 5}).to(test::asked_for_device());
}

TEST_P(TensorParallelRegions, CrossEntropyOfADividedVocabularyIsThatOfTheWhole) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const auto& [classes, options] : vocabularies()) {
      const Slice mine = share(group, classes);
      const ClassSlab slab{mine.first, mine.count, classes};
      const Tensor target = targets(classes), large = wave({3, 5, classes}, 0.2);
      large *= 300.0;  // exponentials overflow unless maxima are subtracted
      const auto reduced = [&](const Variable& loss) {
        return sum(loss * Variable(wave(loss.shape(), 0.7)));
      };
      for (const Tensor& logits : {wave({3, 5, classes}, 0.2), large}) {
        const Variable whole(logits, true);
        const Variable part(narrow(Variable(logits), 2, mine.first, mine.count).data(), true);
        const Variable expected =
            reshape(cross_entropy(reshape(whole, {15, classes}), target.reshape({15}), options),
                    options.reduction == Reduction::none ? Shape{3, 5} : Shape{});
        const Variable actual =
            vocabulary_parallel_cross_entropy(part, target, slab, group, options);
        EXPECT_LE(max_difference(actual.data(), expected.data()), 1e-11);
        reduced(expected).backward();
        reduced(actual).backward();
        EXPECT_LE(max_difference(part.grad(),
                                 narrow(Variable(whole.grad()), 2, mine.first, mine.count).data()),
                  1e-12);
      }
    }
  });
}

/// Five chunks of rows.
TEST_P(TensorParallelRegions, LinearCrossEntropyOfADividedVocabularyIsThatOfTheWhole) {
  constexpr std::int64_t count = 1030;
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const auto& [classes, options] : vocabularies()) {
      const Slice mine = share(group, classes);
      const ClassSlab slab{mine.first, mine.count, classes};
      std::vector<std::int64_t> chosen;
      for (std::int64_t i = 0; i < count; ++i) chosen.push_back((i * i + 3 * i) % slab.classes);
      const Tensor target = Tensor::from(chosen, {2, count / 2}).to(test::asked_for_device());
      const Tensor in = wave({2, count / 2, 6}, 0.5), table = wave({classes, 6}, 0.6);
      const Tensor slab_table = table.slice(mine.first, mine.first + mine.count).clone();
      const auto reduced = [](const Variable& loss) {
        return sum(loss * Variable(wave(loss.shape(), 0.7)));
      };
      for (const auto when : {LossGradients::in_forward, LossGradients::in_backward}) {
        const Variable x(in, true), rows(table, true), same_x(in, true),
            slab_rows(slab_table, true);
        const Variable expected = linear_cross_entropy(x, rows, target, options, when);
        const Variable actual = vocabulary_parallel_linear_cross_entropy(
            copy_to_group(same_x, group), slab_rows, target, slab, group, options, when);
        EXPECT_LE(max_difference(actual.data(), expected.data()), 1e-10);
        reduced(expected).backward();
        reduced(actual).backward();
        EXPECT_LE(max_difference(same_x.grad(), x.grad()), 1e-12);
        EXPECT_LE(max_difference(slab_rows.grad(),
                                 rows.grad().slice(mine.first, mine.first + mine.count)),
                  1e-10);
      }
    }
  });
}

TEST_P(TensorParallelRegions, LinearCrossEntropyOfADividedVocabularyHasNoSecondDerivative) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const Slice mine = share(group, 8);
    const Variable x(wave({3, 5, 6}, 0.5), true), rows(wave({mine.count, 6}, 0.6), true);
    for (const auto when : {LossGradients::in_forward, LossGradients::in_backward}) {
      const Variable loss = vocabulary_parallel_linear_cross_entropy(
          x, rows, targets(8), {mine.first, mine.count, 8}, group, {}, when);
      EXPECT_NE(message_of<Error>([&] {
                  static_cast<void>(grad(loss, x, {.create_graph = true}));
                }).find("vocabulary_parallel_linear_cross_entropy has no second derivative"),
                std::string::npos);
    }
  });
}

/// f32 logits of 15 rows, -infinity for the classes of `hidden`. The exponentials of the others are
/// 1 or 0, so sums are exact in any order.
Tensor partly_hidden(std::int64_t classes, const Slice& hidden) {
  std::vector<float> logits;
  for (std::int64_t r = 0; r < 15; ++r) {
    for (std::int64_t c = 0; c < classes; ++c) {
      const bool is_hidden = c >= hidden.first && c < hidden.first + hidden.count;
      const float seen = (r + c) % 2 == 0 ? 0.5F : -199.5F;
      logits.push_back(is_hidden ? -std::numeric_limits<float>::infinity() : seen);
    }
  }
  return Tensor::from(logits, {15, classes}).to(test::asked_for_device());
}

TEST_P(TensorParallelRegions, ClassesOfARankMayAllHaveALogitOfMinusInfinity) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    if (group->size() == 1) return;  // NaN, as it is for all classes
    constexpr std::int64_t classes = 8;
    const Slice mine = share(group, classes);
    const ClassSlab slab{mine.first, mine.count, classes};
    const Tensor target = targets(classes).reshape({15});
    for (int rank = 0; rank < group->size(); ++rank) {
      const Tensor logits = partly_hidden(classes, share(rank, group->size(), classes));
      for (const double smoothing : {0.0, 0.3}) {  // with it all losses are infinite
        SCOPED_TRACE(testing::Message() << "rank " << rank << ", smoothing " << smoothing);
        const LossOptions options{.reduction = Reduction::none, .label_smoothing = smoothing};
        const Variable whole(logits, true);
        const Variable part(narrow(Variable(logits), 1, mine.first, mine.count).data(), true);
        const Variable expected = cross_entropy(whole, target, options);
        const Variable actual =
            vocabulary_parallel_cross_entropy(part, target, slab, group, options);
        EXPECT_EQ(max_difference(actual.data(), expected.data()), 0.0);
        sum(expected).backward();
        sum(actual).backward();
        EXPECT_LE(max_difference(part.grad(),
                                 narrow(Variable(whole.grad()), 1, mine.first, mine.count).data()),
                  1e-6);
        for (const float slope : part.grad().to_vector<float>()) EXPECT_TRUE(std::isfinite(slope));
      }
    }
  });
}

TEST_P(TensorParallelRegions, ARankMayHoldNoClassOfASmoothedCrossEntropy) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    constexpr std::int64_t classes = 3;
    const Slice mine = share(group, classes);
    const Tensor target = targets(classes).reshape({15}), logits = wave({15, classes}, 0.2);
    const LossOptions options{.label_smoothing = 0.3};
    const Variable expected = cross_entropy(Variable(logits), target, options);
    const Variable actual = vocabulary_parallel_cross_entropy(
        narrow(Variable(logits), 1, mine.first, mine.count), target,
        {mine.first, mine.count, classes}, group, options);
    EXPECT_LE(max_difference(actual.data(), expected.data()), 1e-12);
  });
}

TEST_P(TensorParallelRegions, EmbeddingOfADividedVocabularyIsThatOfTheWhole) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const Tensor index = targets(11);
    const Slice mine = share(group, 11);
    for (const std::int64_t padding : {-1, 0, 7}) {
      const Variable table(wave({11, 4}, 0.6), true);
      const Variable rows(table.data().slice(mine.first, mine.first + mine.count).clone(), true);
      const auto loss = [](const Variable& y) { return sum(pow(y, 2.0)); };
      const Variable expected = embedding(index, table, padding);
      const Variable actual =
          vocabulary_parallel_embedding(index, rows, {mine.first, mine.count, 11}, padding, group);
      EXPECT_LE(max_difference(actual.data(), expected.data()), 0.0);
      loss(expected).backward();
      loss(actual).backward();
      EXPECT_LE(
          max_difference(rows.grad(), table.grad().slice(mine.first, mine.first + mine.count)),
          1e-14);
    }
  });
}

TEST_P(TensorParallelRegions, AWrongClassIsNamedOnEveryRank) {
  if (test::asked_for_device() != Device{}) return;  // a device says so later
  test::on_ranks(GetParam(), [&](const auto& group) {
    const Slice mine = share(group, 8);
    const ClassSlab slab{mine.first, mine.count, 8};
    const Variable rows(wave({mine.count, 4}, 0.6)), logits(wave({3, 5, mine.count}, 0.1));
    EXPECT_EQ(
        message_of<InputError>([&] {
          static_cast<void>(vocabulary_parallel_embedding(targets(11), rows, slab, -1, group));
        }),
        "embedding: index 10 at position 2 of [3, 5] is not a row of the 8 that the ranks hold "
        "together");
    EXPECT_EQ(
        message_of<InputError>([&] {
          static_cast<void>(vocabulary_parallel_cross_entropy(logits, targets(11), slab, group));
        }),
        "vocabulary_parallel_cross_entropy: target 10 in row 2 is not a class: there are 8, "
        "counted from 0, and ignore_index is -100");
    EXPECT_EQ(message_of<ShapeError>([&] {
                static_cast<void>(vocabulary_parallel_cross_entropy(
                    logits, targets(8).reshape({15}), slab, group));
              }),
              "vocabulary_parallel_cross_entropy of logits [3, 5, " + std::to_string(mine.count) +
                  "] for " + std::to_string(mine.count) +
                  " of 8 classes takes a target i64[3, 5], not i64[15] on host");
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, TensorParallelRegions, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
