// What embedding promises beyond its formula.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/embedding.hpp>
#include <lockstep/base/error.hpp>

#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

Tensor indices(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

Variable table(std::int64_t rows, std::int64_t width) {
  return Variable(random_tensor({rows, width}, 1).to(DType::f32), true);
}

std::string input_error_of(const Tensor& index, std::int64_t padding_idx) {
  try {
    static_cast<void>(embedding(index, table(5, 3), padding_idx));
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

TEST(Embedding, NamesAnIndexOutsideTheTable) {
  EXPECT_EQ(input_error_of(indices({0, 5}), -1),
            "embedding: index 5, number 1 of [2], is outside the table's rows [0, 5)");
  EXPECT_NE(input_error_of(indices({-1}), -1).find("index -1"), std::string::npos);
  EXPECT_NE(input_error_of(indices({0}), 5).find("padding_idx 5"), std::string::npos);
  EXPECT_NE(input_error_of(indices({0}), -2).find("padding_idx -2"), std::string::npos);
}

TEST(Embedding, NamesTheShapesThatDoNotFit) {
  try {
    static_cast<void>(embedding(Tensor::zeros({2, 3}, DType::u8), table(5, 3)));
    FAIL() << "no ShapeError";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("u8[2, 3]"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("f32[5, 3]"), std::string::npos) << error.what();
  }
}

TEST(Embedding, OfOneIndexIsARowAndOfNoneLeavesZeroGradients) {
  const Variable weight = table(5, 3);
  const Variable row = embedding(Tensor::full({}, 4, DType::i64), weight);
  EXPECT_EQ(row.shape(), Shape{3});
  EXPECT_EQ(row.data().to_vector<float>(), weight.data().slice(4, 5).to_vector<float>());

  const Variable none = embedding(Tensor::empty({0, 2}, DType::i64), weight);
  EXPECT_EQ(none.shape(), (Shape{0, 2, 3}));
  weighted_sum(none, Tensor::empty(none.shape())).backward();
  EXPECT_EQ(weight.grad().to_vector<float>(), std::vector<float>(15, 0.0F));
}

TEST(Embedding, AddsTheGradientsOfARepeatedRowExactly) {
  const Variable weight = table(2, 20);
  const Variable y = embedding(Tensor::full({1000}, 1, DType::i64), weight);
  weighted_sum(y, Tensor::full(y.shape(), 3)).backward();
  // Whole numbers below 2^24 are exact in float.
  EXPECT_EQ(weight.grad().slice(1, 2).to_vector<float>(), std::vector<float>(20, 3000.0F));
  EXPECT_EQ(weight.grad().slice(0, 1).to_vector<float>(), std::vector<float>(20, 0.0F));
}

}  // namespace
}  // namespace lockstep::test
