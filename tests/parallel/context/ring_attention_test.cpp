// Attention over slices of a sequence is that over the whole sequence, forward and backward.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/backward.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreed_error.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/parallel/context/ring_attention.hpp>

#include "../ranks.hpp"
#include "../small_models.hpp"

namespace lockstep {
namespace {

using test::max_difference;
using test::wave;

/// [B,L,heads width] of one kind of operand: cut along the sequence, then into heads.
Variable in_heads(const Variable& x, std::int64_t heads) {
  const Shape& s = x.shape();
  return transpose(reshape(x, {s[0], s[1], heads, s[2] / heads}), 1, 2);
}
Variable side_by_side(const Variable& x) {
  const Shape& s = x.shape();
  return reshape(transpose(x, 1, 2), {s[0], s[2], s[1] * s[3]});
}

struct Case {
  std::int64_t length, heads, key_heads;
  bool causal;
  SequenceOrder order = SequenceOrder::contiguous;
  DType dtype = DType::f64;
  bool pads = false;
  std::int64_t batch = 2, width = 4;

  [[nodiscard]] std::string name() const {
    return "L " + std::to_string(length) + ", heads " + std::to_string(heads) + ", " +
           std::to_string(key_heads) + (causal ? ", causal" : "") +
           (order == SequenceOrder::zigzag ? ", zigzag" : "") +
           (dtype == DType::f32 ? ", f32" : "") + (pads ? ", padded" : "");
  }
  /// For rank `rank` of `ranks`.
  [[nodiscard]] RingAttentionOptions options(int rank, int ranks) const {
    return {.causal = causal,
            .scale = 0.7,
            .order = order,
            .key_padding_mask = pads ? sequence_slice(hidden(), rank, ranks, order) : Tensor()};
  }
  [[nodiscard]] Tensor hidden() const {
    return pads ? test::padding_mask(batch, length) : Tensor();
  }
};

std::vector<Case> cases() {
  using enum SequenceOrder;
  std::vector<Case> all;
  for (const SequenceOrder order : {contiguous, zigzag}) {
    for (const std::int64_t length : {40, 23, 3}) {
      for (const bool causal : {false, true}) all.push_back({length, 2, 2, causal, order});
    }
    all.push_back({23, 6, 2, true, order});
    all.push_back({23, 4, 1, true, order});
    all.push_back({23, 4, 2, false, order});
    all.push_back({40, 2, 2, true, order, DType::f32});
    all.push_back({23, 4, 2, true, order, DType::f32});
    for (const std::int64_t length : {23, 3}) {
      for (const bool causal : {false, true}) {
        all.push_back({length, 4, 2, causal, order, DType::f64, true});
      }
    }
    all.push_back({40, 2, 2, true, order, DType::f32, true});
  }
  return all;
}

/// All ranks' q, k, v, and the weights of a loss; then the output and the gradients of q, k and v
/// by undivided attention.
struct Whole {
  Tensor q, k, v, weight;
  Tensor output = {}, grad_q = {}, grad_k = {}, grad_v = {};
};

Variable loss_of(const Variable& y, const Tensor& weight) {
  return sum(pow(y, 3.0) * Variable(weight));
}

Variable repeated(const Variable& x, std::int64_t times) {
  std::vector<Variable> heads;
  for (std::int64_t h = 0; h < x.shape()[1] * times; ++h)
    heads.push_back(narrow(x, 1, h / times, 1));
  return concat(heads, 1);
}

/// The operands of the undivided attention that `c` describes.
struct RingOperands {
  Variable q, k, v;
};

Variable undivided_attention(const Case& c, const RingOperands& of) {
  const std::int64_t times = c.heads / c.key_heads;
  AttentionOptions options;
  options.causal = c.causal;
  options.scale = 0.7;
  options.key_padding_mask = c.hidden();
  return side_by_side(scaled_dot_product_attention(
      in_heads(of.q, c.heads), repeated(in_heads(of.k, c.key_heads), times),
      repeated(in_heads(of.v, c.key_heads), times), options));
}

Variable ring_of(const Case& c, const RingOperands& of, const GroupPtr& group) {
  return side_by_side(ring_attention(in_heads(of.q, c.heads), in_heads(of.k, c.key_heads),
                                     in_heads(of.v, c.key_heads), group,
                                     c.options(group->rank(), group->size())));
}

Whole whole_of(const Case& c) {
  const std::int64_t embed = c.heads * c.width, keys = c.key_heads * c.width;
  const auto make = [&](std::int64_t features, double phase) {
    return wave({c.batch, c.length, features}, phase, c.dtype);
  };
  Whole w{.q = make(embed, 0.1),
          .k = make(keys, 0.5),
          .v = make(keys, 0.9),
          .weight = make(embed, 1.3)};
  const Variable q(w.q, true), k(w.k, true), v(w.v, true);
  const Variable y = undivided_attention(c, {q, k, v});
  loss_of(y, w.weight).backward();
  w.output = y.data();
  w.grad_q = q.grad();
  w.grad_k = k.grad();
  w.grad_v = v.grad();
  return w;
}

class RingAttention : public testing::TestWithParam<int> {};

TEST_P(RingAttention, OfSlicesIsThatOfTheWholeSequenceForwardAndBackward) {
  const int size = GetParam();
  for (const Case& c : cases()) {
    const Whole whole = whole_of(c);
    const double tolerance = c.dtype == DType::f64 ? 1e-10 : 1e-4;
    test::on_ranks(size, [&](const auto& group) {
      const std::string where =
          c.name() + ", rank " + std::to_string(group->rank()) + " of " + std::to_string(size);
      const auto slice = [&](const Tensor& t) {
        return sequence_slice(t, group->rank(), size, c.order);
      };
      const auto expect = [&](const Tensor& actual, const Tensor& expected, const char* what) {
        const Tensor cut = slice(expected);
        ASSERT_EQ(actual.shape(), cut.shape()) << what << ", " << where;
        if (cut.numel() == 0) return;
        EXPECT_LE(max_difference(actual, cut), tolerance) << what << ", " << where;
      };
      const Variable q(slice(whole.q), true), k(slice(whole.k), true), v(slice(whole.v), true);
      const Variable y = ring_of(c, {q, k, v}, group);
      expect(y.data(), whole.output, "output");
      loss_of(y, slice(whole.weight)).backward();
      expect(q.grad(), whole.grad_q, "gradient of q");
      expect(k.grad(), whole.grad_k, "gradient of k");
      expect(v.grad(), whole.grad_v, "gradient of v");
      // The same of one projection's output, twice, so that gradients add up.
      const Variable p(slice(whole.q), true), r(slice(whole.k), true), s(slice(whole.v), true);
      const Variable qkv = concat({p, r, s}, 2);
      for (int pass = 0; pass < 2; ++pass) {
        const Variable z =
            ring_self_attention(qkv, c.heads, group, c.options(group->rank(), size), c.key_heads);
        expect(z.data(), whole.output, "output of one projection");
        (loss_of(z, slice(whole.weight)) * 0.5).backward(1.0, pass == 0);
      }
      expect(p.grad(), whole.grad_q, "gradient of q in one projection");
      expect(r.grad(), whole.grad_k, "gradient of k in one projection");
      expect(s.grad(), whole.grad_v, "gradient of v in one projection");
    });
  }
}

TEST_P(RingAttention, HasTheSecondDerivativesOfTheWholeSequence) {
  using enum SequenceOrder;
  const int size = GetParam();
  const std::vector<Case> all{{9, 2, 2, false, contiguous},
                              {9, 4, 2, true, zigzag},
                              {9, 2, 2, true, contiguous, DType::f64, true},
                              {3, 2, 1, true, zigzag, DType::f64, true},
                              {3, 2, 2, false, contiguous}};
  // The sum over ranks of a function of the gradients that each rank has for its slices.
  const auto of_gradients = [](const std::vector<Variable>& gradients, const auto& slice_of) {
    Variable total;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Tensor weight = slice_of(i);
      const Variable part = sum(pow(gradients[i], 2.0) * Variable(weight));
      total = total.defined() ? total + part : part;
    }
    return total;
  };
  for (const Case& c : all) {
    const Whole whole = whole_of(c);
    const std::vector<Tensor> values{whole.q, whole.k, whole.v};
    std::vector<Tensor> weights;
    for (std::size_t i = 0; i < 3; ++i) {
      weights.push_back(wave(values[i].shape(), 0.2 + static_cast<double>(i)));
    }
    const std::vector x{Variable(whole.q, true), Variable(whole.k, true), Variable(whole.v, true)};
    const auto first = grad(loss_of(undivided_attention(c, {x[0], x[1], x[2]}), whole.weight), x,
                            {.create_graph = true});
    of_gradients(first, [&](std::size_t i) { return weights[i]; }).backward();
    test::on_ranks(size, [&](const auto& group) {
      const std::string where = c.name() + ", rank " + std::to_string(group->rank());
      const auto slice = [&](const Tensor& t) {
        return sequence_slice(t, group->rank(), size, c.order);
      };
      for (const bool in_one : {false, true}) {
        std::vector<Variable> mine;
        for (const Tensor& value : values) mine.emplace_back(slice(value), true);
        const Variable y = in_one ? ring_self_attention(concat(mine, 2), c.heads, group,
                                                        c.options(group->rank(), size), c.key_heads)
                                  : ring_of(c, {mine[0], mine[1], mine[2]}, group);
        const auto gradients = grad(loss_of(y, slice(whole.weight)), mine, {.create_graph = true});
        of_gradients(gradients, [&](std::size_t i) { return slice(weights[i]); }).backward();
        for (std::size_t i = 0; i < 3; ++i) {
          if (mine[i].data().numel() == 0) continue;
          EXPECT_LE(max_difference(gradients[i].data(), slice(first[i].data())), 1e-10)
              << "first, of " << i << ", " << where;
          EXPECT_LE(max_difference(mine[i].grad(), slice(x[i].grad())), 1e-10)
              << "second, of " << i << ", " << where;
        }
      }
    });
  }
}

TEST_P(RingAttention, UnderAutocastIsThatOfTheWholeSequenceUpToItsRounding) {
  using enum SequenceOrder;
  const int size = GetParam();
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    // Of a few units in the last place of 8 and 11 bits, at sums of some tens.
    const double tolerance = precision == Precision::bf16 ? 0.05 : 0.006;
    const auto relative = [](const Tensor& actual, const Tensor& expected) {
      return max_difference(actual, expected) /
             std::max(1.0, max_difference(expected, Tensor::zeros(expected.shape(), DType::f32,
                                                                  expected.device())));
    };
    for (const Case& c : {Case{40, 4, 2, true, zigzag, DType::f32, true},
                          Case{23, 2, 2, false, contiguous, DType::f32}}) {
      const Whole exact = whole_of(c);
      const Autocast on_this_thread(precision);
      const Whole whole = whole_of(c);
      EXPECT_GT(max_difference(whole.output, exact.output), 0.0) << "nothing was rounded";
      test::on_ranks(size, [&](const auto& group) {
        const Autocast autocast(precision);
        const auto slice = [&](const Tensor& t) {
          return sequence_slice(t, group->rank(), size, c.order);
        };
        const Variable q(slice(whole.q), true), k(slice(whole.k), true), v(slice(whole.v), true);
        const Variable y = ring_of(c, {q, k, v}, group);
        loss_of(y, slice(whole.weight)).backward();
        EXPECT_LE(relative(y.data(), slice(whole.output)), tolerance) << c.name();
        EXPECT_LE(relative(q.grad(), slice(whole.grad_q)), tolerance) << c.name();
        EXPECT_LE(relative(k.grad(), slice(whole.grad_k)), tolerance) << c.name();
        EXPECT_LE(relative(v.grad(), slice(whole.grad_v)), tolerance) << c.name();
      });
    }
  }
}

TEST_P(RingAttention, OfVariablesOf16BitsHasTheBitsOfTheirCopiesInF32) {
  const int size = GetParam();
  const Case c{23, 4, 2, true, SequenceOrder::zigzag, DType::f32};
  const Whole whole = whole_of(c);
  test::on_ranks(size, [&](const auto& group) {
    const auto half = [&](const Tensor& t) {
      return sequence_slice(t, group->rank(), size, c.order).to(DType::bf16);
    };
    const std::vector<Tensor> values{half(whole.q), half(whole.k), half(whole.v)};
    const auto gradients_of = [&](DType dtype) {
      std::vector<Variable> x;
      for (const Tensor& value : values) x.emplace_back(value.to(dtype), true);
      const Variable y = ring_of(c, {x[0], x[1], x[2]}, group);
      sum(to(y, DType::f32)).backward();
      std::vector<Tensor> found{y.data().to(DType::bf16)};
      for (const Variable& variable : x) found.push_back(variable.grad().to(DType::bf16));
      return found;
    };
    const auto narrow_ones = gradients_of(DType::bf16), wide = gradients_of(DType::f32);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      EXPECT_EQ(max_difference(narrow_ones[i].to(DType::f32), wide[i].to(DType::f32)), 0.0) << i;
    }
  });
}

TEST(RingAttentionTraffic, KeysAndValuesOf16BitsAreHalfTheBytes) {
  constexpr int ranks = 4;
  constexpr std::int64_t samples = 3, tokens = 6, heads = 2, width = 4;
  constexpr std::int64_t facts = 13 * 8;  // which the ranks compare first
  constexpr std::int64_t elements = 2 * samples * tokens * heads * width;
  struct Sent {
    std::int64_t forward, backward;
    bool operator==(const Sent&) const = default;
  };
  const auto sent = [&](Precision precision, DType dtype, bool pads) {
    const auto group = std::make_shared<FakeGroup>(ranks, 1);
    const Autocast autocast(precision);
    const Variable qkv(wave({samples, tokens, 3 * heads * width}, 0.3, dtype), true);
    RingAttentionOptions options{.causal = true, .order = SequenceOrder::zigzag};
    if (pads) options.key_padding_mask = test::padding_mask(samples, tokens);
    const Variable y = ring_self_attention(qkv, heads, group, options);
    const std::int64_t forward = group->traffic().bytes;
    sum(to(y, DType::f32)).backward();
    return Sent{forward - facts, group->traffic().bytes - forward};
  };
  using enum Precision;
  constexpr Sent wide{3 * elements * 4, 3 * elements * 4 + 4 * elements * 4};
  constexpr Sent narrow_keys{3 * elements * 2, 3 * elements * 2 + 4 * elements * 4};
  EXPECT_EQ(sent(f32, DType::f32, false), wide);
  EXPECT_EQ(sent(bf16, DType::f32, false), narrow_keys);
  EXPECT_EQ(sent(fp16, DType::f32, false), narrow_keys);
  EXPECT_EQ(sent(f32, DType::bf16, false), narrow_keys);
  // A mask is one more number a key.
  constexpr std::int64_t mask = 3 * samples * tokens * 2;
  EXPECT_EQ(sent(bf16, DType::f32, true),
            (Sent{narrow_keys.forward + mask, narrow_keys.backward + mask}));
}

TEST_P(RingAttention, OfOneVariableInThreePlacesAddsItsGradients) {
  const int size = GetParam();
  const Tensor x = wave({2, 17, 8}, 0.4), weight = wave({2, 17, 8}, 1.1);
  const Variable all(x, true);
  const Variable heads = in_heads(all, 2);
  loss_of(side_by_side(scaled_dot_product_attention(heads, heads, heads)), weight).backward();
  test::on_ranks(size, [&](const auto& group) {
    const auto slice = [&](const Tensor& t) { return sequence_slice(t, group->rank(), size); };
    const Variable mine(slice(x), true);
    const Variable h = in_heads(mine, 2);
    loss_of(side_by_side(ring_attention(h, h, h, group)), slice(weight)).backward();
    EXPECT_LE(max_difference(mine.grad(), slice(all.grad())), 1e-12);
  });
}

TEST_P(RingAttention, SkipsGradientsThatNoInputRequires) {
  const int size = GetParam();
  const Case c{12, 2, 2, true};
  const Whole whole = whole_of(c);
  test::on_ranks(size, [&](const auto& group) {
    const auto slice = [&](const Tensor& t) { return sequence_slice(t, group->rank(), size); };
    const auto run = [&](bool of_q, bool of_k, bool of_v) {
      const Variable q(slice(whole.q), of_q), k(slice(whole.k), of_k), v(slice(whole.v), of_v);
      loss_of(ring_of(c, {q, k, v}, group), slice(whole.weight)).backward();
      const auto expect = [&](const Variable& x, const Tensor& gradient) {
        ASSERT_EQ(x.grad().defined(), x.requires_grad());
        if (!x.requires_grad()) return;
        EXPECT_LE(max_difference(x.grad(), slice(gradient)), 1e-10);
      };
      expect(q, whole.grad_q);
      expect(k, whole.grad_k);
      expect(v, whole.grad_v);
    };
    run(true, false, false);
    run(false, true, false);
    run(false, false, true);
    const NoGradGuard no_grad;
    const Variable x(slice(whole.q), true);
    EXPECT_FALSE(ring_self_attention(concat({x, x, x}, 2), 2, group).requires_grad());
  });
}

TEST_P(RingAttention, OfKeysOnOneRankAlone) {
  const int size = GetParam();
  const Tensor q = wave({1, 2, 6, 4}, 0.2), kv = wave({1, 2, 5, 4}, 0.6),
               none = wave({1, 2, 0, 4}, 0);
  const Tensor weight = wave({1, 2, 6, 4}, 1.0);
  const Variable all_q(q, true), all_kv(kv, true);
  const Variable expected = scaled_dot_product_attention(all_q, all_kv, all_kv);
  loss_of(expected, weight).backward();
  test::on_ranks(size, [&](const auto& group) {
    const bool has = group->rank() == size - 1;
    const Variable mine_q(q, true), mine_kv(has ? kv : none, true);
    const Variable y = ring_attention(mine_q, mine_kv, mine_kv, group);
    EXPECT_LE(max_difference(y.data(), expected.data()), 1e-12);
    loss_of(y * 1.0, weight).backward();
    EXPECT_LE(max_difference(mine_q.grad(), all_q.grad()), 1e-10);
    // Every rank asked the same of these keys.
    if (!has) return;
    mine_kv.grad() *= 1.0 / size;
    EXPECT_LE(max_difference(mine_kv.grad(), all_kv.grad()), 1e-10);
  });
  test::on_ranks(size, [&](const auto& group) {
    const Variable x(q, true), keys(none, true);
    const Variable y = ring_attention(x, keys, keys, group);
    sum(y).backward();
    EXPECT_EQ(max_difference(y.data(), Tensor::zeros(q.shape(), q.dtype(), q.device())), 0.0);
    EXPECT_EQ(max_difference(x.grad(), Tensor::zeros(q.shape(), q.dtype(), q.device())), 0.0);
  });
}

TEST_P(RingAttention, RefusesOnAllRanksAlike) {
  const int size = GetParam();
  test::on_ranks(size, [&](const auto& group) {
    const bool last = group->rank() == size - 1;
    const Variable x(wave({2, 6, 12}, 0.3));
    const auto message = [&](const auto& call) {
      const std::string text = test::message_of<Error>(call);
      EXPECT_TRUE(test::same_on_all_ranks(*group, text)) << text;
      return text;
    };
    const auto heads =
        message([&] { static_cast<void>(ring_self_attention(x, last ? 5 : 2, group)); });
    EXPECT_NE(heads.find("with 5 heads and 5 key heads: it takes [B, T, (heads + 2 key_heads) D]"),
              std::string::npos)
        << heads;
    if (size > 1) {
      const auto options =
          message([&] { static_cast<void>(ring_self_attention(x, 2, group, {.causal = last})); });
      EXPECT_NE(options.find("rank " + std::to_string(size - 1) + " of " + std::to_string(size) +
                             " has batch 2, 2 heads, 2 key heads of width 2, f64, causal, "
                             "contiguous, without a key_padding_mask"),
                std::string::npos)
          << options;
    }
    const auto mask_of = [&](std::int64_t keys) {
      return Tensor::zeros({2, keys}, DType::boolean, test::asked_for_device());
    };
    const auto mask = message([&] {
      static_cast<void>(
          ring_self_attention(x, 2, group, {.key_padding_mask = mask_of(last ? 5 : 6)}));
    });
    EXPECT_NE(mask.find("6 keys takes a key_padding_mask bool[2, 6]"), std::string::npos) << mask;
    if (size > 1) {
      const auto on_some = message([&] {
        static_cast<void>(
            ring_self_attention(x, 2, group, {.key_padding_mask = last ? mask_of(6) : Tensor()}));
      });
      EXPECT_NE(on_some.find("with a key_padding_mask"), std::string::npos) << on_some;
    }
    const Variable h = in_heads(x, 3), fewer = in_heads(narrow(x, 1, 0, 5), 3);
    EXPECT_NE(message([&] {
                static_cast<void>(ring_attention(h, fewer, fewer, group, {.causal = true}));
              }).find("and S = T if causal"),
              std::string::npos);
    EXPECT_NE(
        message([&] { static_cast<void>(ring_attention(h, h, h, nullptr)); }).find("needs a group"),
        std::string::npos);
    // The group is as good as before.
    EXPECT_EQ(ring_self_attention(x, 2, group).shape(), (Shape{2, 6, 4}));
  });
}

TEST_P(RingAttention, TakesAsMuchMemoryOfARankOnAnyNumberOfRanks) {
  // Ranks that are threads share the allocator's counters.
  const int size = GetParam();
  if (size < 3) return;
  test::on_ranks(size, [&](const auto& group) {
    if (group->backend() != std::string("mpi")) return;
    constexpr std::int64_t length = 512, heads = 2, embed = 32;
    constexpr std::int64_t slice_bytes = length * embed * 8;
    const auto pair = group->split(group->rank() / 2, group->rank());
    const auto peak_of = [&](const GroupPtr& ranks) {
      const Variable x(wave({1, length, 3 * embed}, 0.3), true);
      sum(ring_self_attention(x, heads, ranks, {.causal = true, .order = SequenceOrder::zigzag}))
          .backward();
      return memory_stats().peak_in_use;
    };
    const std::int64_t before = memory_stats().in_use, of_two = peak_of(pair),
                       of_all = peak_of(group);
    // Inputs and their gradient 6, output and its gradient 2, keys and values 4, three of their
    // gradients 6; two blocks of scores of 128 KiB each (attention.cpp), and two sums a row. All
    // scores would be 2 MiB a head in a ring of two.
    EXPECT_LE(of_two - before,
              18 * slice_bytes + (2 * 128 + 2 * heads * length * 8 / 1024 + 4) * 1024);
    if (pair->size() == 2) {
      EXPECT_LE(of_all - of_two, slice_bytes / 8);
    }
    pair->close();
  });
}

/// Those of the other tests; as threads, 5, 6 and 8 ranks too.
std::vector<int> ring_sizes() {
  std::vector<int> sizes = test::rank_counts();
  if (sizes.size() > 3) sizes.insert(sizes.end(), {5, 6, 8});
  return sizes;
}

INSTANTIATE_TEST_SUITE_P(Ranks, RingAttention, testing::ValuesIn(ring_sizes()),
                         testing::PrintToStringParamName());

TEST(SequenceSlice, RunsCoverTheSequenceOnceAndBalanceCausalWork) {
  using enum SequenceOrder;
  EXPECT_EQ(sequence_runs(10, 1, 3, contiguous), (std::array<SequenceRun, 2>{{{4, 7}, {7, 7}}}));
  EXPECT_EQ(sequence_runs(10, 0, 2, zigzag), (std::array<SequenceRun, 2>{{{0, 3}, {8, 10}}}));
  EXPECT_EQ(sequence_runs(10, 1, 2, zigzag), (std::array<SequenceRun, 2>{{{3, 6}, {6, 8}}}));
  for (const SequenceOrder order : {contiguous, zigzag}) {
    for (const int ranks : {1, 2, 3, 5}) {
      for (const std::int64_t length : {0, 1, 7, 40, 41}) {
        std::vector<int> held(static_cast<std::size_t>(length));
        for (int r = 0; r < ranks; ++r) {
          std::int64_t count = 0;
          const auto runs = sequence_runs(length, r, ranks, order);
          for (const SequenceRun& run : runs) {
            for (std::int64_t i = run.begin; i < run.end; ++i) ++held[static_cast<std::size_t>(i)];
            count += run.size();
          }
          EXPECT_EQ(runs[0].size(), order == zigzag ? (count + 1) / 2 : count);
          EXPECT_LE(std::abs(count - length / ranks), 2);
        }
        EXPECT_EQ(held, std::vector<int>(static_cast<std::size_t>(length), 1));
      }
    }
  }
  const Tensor tokens =
      Tensor::from({0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17}, {2, 8});
  EXPECT_EQ(sequence_slice(tokens, 1, 2, zigzag).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{2, 3, 4, 5, 12, 13, 14, 15}));
  EXPECT_NE(test::message_of<ShapeError>([] {
              static_cast<void>(sequence_slice(Tensor::zeros({4}), 0, 2));
            }).find("cuts dimension 1 of [B, L, ...]"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
