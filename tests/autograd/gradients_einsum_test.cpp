// Sums of products by letters against loops over all indices, and their gradients.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <lockstep/autograd/functional/einsum.hpp>
#include <lockstep/base/error.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

const std::map<char, std::int64_t> extent_of{{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'e', 1}};

struct Case {
  std::vector<std::string> operands;
  std::string result;

  [[nodiscard]] std::string equation() const {
    std::string text;
    for (const auto& labels : operands) text += (text.empty() ? "" : ",") + labels;
    return text + "->" + result;
  }
};

Shape shape_of(const std::string& labels) {
  std::vector<std::int64_t> of;
  for (const char c : labels) of.push_back(extent_of.at(c));
  return Shape(std::span<const std::int64_t>(of));
}

std::int64_t place(const std::string& labels, const std::map<char, std::int64_t>& index) {
  std::int64_t at = 0;
  for (const char c : labels) at = at * extent_of.at(c) + index.at(c);
  return at;
}

/// Every combination of indices in turn.
std::vector<double> by_loops(const Case& c, const std::vector<Tensor>& operands) {
  std::vector<std::vector<double>> values;
  for (const Tensor& t : operands) values.push_back(t.to_vector<double>());
  std::vector<double> result(static_cast<std::size_t>(shape_of(c.result).numel()), 0.0);
  std::string letters;
  for (const auto& labels : c.operands) {
    for (const char l : labels) {
      if (letters.find(l) == std::string::npos) letters += l;
    }
  }
  const std::int64_t combinations = shape_of(letters).numel();
  for (std::int64_t n = 0; n < combinations; ++n) {
    std::map<char, std::int64_t> index;
    std::int64_t rest = n;
    for (const char l : letters) {
      index[l] = rest % extent_of.at(l);
      rest /= extent_of.at(l);
    }
    double product = 1;
    for (std::size_t i = 0; i < values.size(); ++i)
      product *= values[i][static_cast<std::size_t>(place(c.operands[i], index))];
    result[static_cast<std::size_t>(place(c.result, index))] += product;
  }
  return result;
}

TEST(Einsum, AgreesWithLoopsAndItsGradientsWithDifferences) {
  const std::vector<Case> cases{
      {{"ab", "bc"}, "ac"},
      {{"ab", "bc"}, "ca"},
      {{"abc", "acd"}, "abd"},
      {{"abc", "adc"}, "abd"},
      {{"ab", "ab"}, ""},
      {{"ab", "cd"}, "abcd"},
      {{"a", "a"}, "a"},
      {{"abc"}, "cab"},
      {{"abc"}, "b"},
      {{"abc"}, ""},
      {{"abcd", "cb"}, "da"},
      {{"ab", "bc", "cd"}, "ad"},
      {{"ab", "ac", "ad"}, "abcd"},
      {{"abcd", "abed"}, "abce"},
      {{"ab", "c"}, "b"},
      {{"dcba", "abcd", "b"}, "ab"},
      {{"e", "ea", "b"}, "bae"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.equation());
    std::vector<Tensor> operands;
    std::vector<Variable> variables;
    for (const auto& labels : c.operands) {
      operands.push_back(random_tensor(shape_of(labels), operands.size() + 1));
      variables.emplace_back(operands.back());
    }
    const Variable y = einsum(c.equation(), variables);
    ASSERT_EQ(y.shape(), shape_of(c.result));
    const auto expected = by_loops(c, operands), found = y.data().to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-13);
    expect_gradients([&](const std::vector<Variable>& v) { return einsum(c.equation(), v); },
                     operands);
  }
}

TEST(Einsum, WithoutAnArrowKeepsUniqueLettersInAlphabeticalOrder) {
  const Variable ba(random_tensor({3, 2}, 1)), bc(random_tensor({3, 4}, 2));
  EXPECT_EQ(einsum("ba, bc", {ba, bc}).data().to_vector<double>(),
            einsum("ba,bc->ac", {ba, bc}).data().to_vector<double>());
}

TEST(Einsum, OfNothingIsZeros) {
  const Variable none(Tensor::zeros({2, 0}, DType::f64)), other(Tensor::zeros({0, 3}, DType::f64));
  EXPECT_EQ(einsum("ab,bc->ac", {none, other}).data().to_vector<double>(),
            std::vector<double>(6, 0.0));
}

TEST(Einsum, NamesWrongSubscripts) {
  const Variable x(random_tensor({2, 3}, 1));
  const auto refusal = [&](const std::string& equation, std::vector<Variable> operands) {
    try {
      static_cast<void>(einsum(equation, operands));
    } catch (const ShapeError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::vector<std::pair<std::string, std::string>> of_one{
      {"a...->a", "'.' is not a letter"}, {"aa->a", "twice in one operand"},
      {"ab->c", "no operand has it"},     {"ab->aa", "twice"},
      {"abc->a", "is not of f64[2, 3]"},  {"ab,bc->ac", "of 2 operands, not of 1"}};
  for (const auto& [equation, words] : of_one)
    EXPECT_NE(refusal(equation, {x}).find(words), std::string::npos) << refusal(equation, {x});
  const std::string sizes = refusal("ab,bc->ac", {x, x});
  EXPECT_NE(sizes.find("'b' is 3 and 2"), std::string::npos) << sizes;
}

}  // namespace
}  // namespace lockstep::test
