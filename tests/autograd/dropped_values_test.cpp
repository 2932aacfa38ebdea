// Values of results that no handle and no node reads: they go before the backward pass.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/tensor/storage.hpp>

namespace lockstep::test {
namespace {

constexpr std::int64_t rows = 512, columns = 64;
constexpr std::int64_t bytes = rows * columns * 4;  // of one value

Variable waves(const Shape& shape, double phase) {
  std::vector<float> numbers(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + phase));
  }
  return Variable(Tensor::from(numbers, shape), true);
}

/// Rounded up to the allocator's sizes.
std::int64_t held_by(const std::function<Variable()>& make, std::int64_t values) {
  const std::int64_t before = memory_stats().in_use;
  const Variable y = make();
  const std::int64_t held = memory_stats().in_use - before;
  EXPECT_GE(held, values * bytes);
  return held;
}

struct Layer {
  Variable x = waves({rows, columns}, 0.1), w = waves({columns, columns}, 0.2),
           v = waves({columns, columns}, 0.3), ones = Variable(Tensor::full({columns}, 1.0), true);

  /// x + linear(norm(x)): the norm is an operand of the product, whose result nobody reads.
  [[nodiscard]] Variable operator()() const { return x + linear(layer_norm(x, ones, {}), w, {}); }
};

TEST(DroppedValues, AResultThatNobodyReadsIsNotHeld) {
  const Layer layer;
  static_cast<void>(layer());
  EXPECT_LT(held_by(layer, 2), 3 * bytes);  // the norm and the sum
  EXPECT_LT(held_by([&] { return relu(linear(layer.x, layer.w, {})); }, 1), 2 * bytes);
  EXPECT_LT(held_by(
                [&] {
                  return dropout(linear(layer.x, layer.w, {}), 0.5, {1, 2, 3});
                },
                2),
            3 * bytes);
  EXPECT_LT(held_by([&] { return transpose(layer.x - linear(layer.x, layer.w, {}), 0, 1); }, 1),
            2 * bytes);
}

TEST(DroppedValues, AResultThatANodeReadsIsHeld) {
  const Layer layer;
  const Variable y = [&] {
    const Variable h = linear(layer.x, layer.w, {});
    return h + gelu(h);  // gelu reads it, the sum does not
  }();
  sum(y).backward();
  const Tensor found = layer.w.grad().clone();
  layer.w.zero_grad();
  const Variable h = linear(layer.x, layer.w, {}), kept = h + gelu(h);
  sum(kept).backward();
  EXPECT_EQ(found.to_vector<float>(), layer.w.grad().to_vector<float>());
}

TEST(DroppedValues, AHandleKeepsItsValue) {
  const Layer layer;
  const Variable h = linear(layer.x, layer.w, {});
  const std::vector<float> before = h.data().to_vector<float>();
  Tensor tensor;
  Variable y;
  {
    const Variable product = linear(layer.x, layer.v, {});
    tensor = product.data();
    const Variable copy = product;
    y = h + product;
  }
  EXPECT_EQ(h.data().to_vector<float>(), before);
  // A tensor that was taken from it is another owner of the memory.
  EXPECT_EQ((y.data().to_vector<float>())[7], before[7] + tensor.to_vector<float>()[7]);
}

TEST(DroppedValues, GradientsOfAnyOrderAreThoseWithHandles) {
  const Layer layer;
  const auto gradients = [&](bool keeps) {
    std::vector<Variable> handles;
    const auto keep = [&](const Variable& y) {
      if (keeps) handles.push_back(y);
      return y;
    };
    const auto pass = [&] {
      const Variable normed = keep(layer_norm(layer.x, layer.ones, {}));
      const Variable product = keep(linear(normed, layer.w, {}));
      const Variable scaled = keep(keep(layer.x + product) - keep(product * 0.5));
      return keep(relu(linear(scaled, layer.v, {})));
    };
    const std::vector<Variable> leaves{layer.x, layer.w, layer.v, layer.ones};
    for (const Variable& leaf : leaves) leaf.zero_grad();
    const Variable loss = mean(pow(pass(), 2.0));
    const std::vector<Variable> first = grad(loss, leaves, {.create_graph = true});
    sum(first[0] * first[0]).backward(1.0, true);
    loss.backward();
    std::vector<std::vector<float>> found;
    for (const Variable& leaf : leaves) found.push_back(leaf.grad().to_vector<float>());
    for (const Variable& one : first) found.push_back(one.data().to_vector<float>());
    return found;
  };
  EXPECT_EQ(gradients(false), gradients(true));
}

TEST(DroppedValues, AGraphIsReadAgainWhereItIsRetained) {
  const Layer layer;
  const Variable loss = sum(layer());
  loss.backward(1.0, true);
  const std::vector<float> once = layer.w.grad().to_vector<float>();
  layer.w.zero_grad();
  layer.x.zero_grad();
  loss.backward();
  EXPECT_EQ(layer.w.grad().to_vector<float>(), once);
}

TEST(DroppedValues, AHandleThatAnotherThreadDropsChangesNothing) {
  const Layer layer;
  Variable y;
  {
    Variable product = linear(layer.x, layer.w, {});
    y = layer.x + product;
    const std::int64_t before = memory_stats().in_use;
    std::thread([gone = std::move(product)] {}).join();
    EXPECT_EQ(memory_stats().in_use, before);
  }
  sum(y).backward();
  EXPECT_TRUE(layer.w.grad().defined());
}

}  // namespace
}  // namespace lockstep::test
