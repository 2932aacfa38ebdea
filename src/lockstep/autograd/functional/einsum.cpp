#include <lockstep/autograd/functional/einsum.hpp>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <lockstep/autograd/functional/matmul.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

/// A tensor with one letter for each dimension.
struct Labelled {
  Variable tensor;
  std::string labels;
};

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

/// The letters of `from` for which `wanted` is true, in order.
template <class F>
std::string filter(const std::string& from, const F& wanted) {
  std::string kept;
  std::ranges::copy_if(from, std::back_inserter(kept), wanted);
  return kept;
}

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

[[noreturn]] void refuse(const std::string& equation, const std::string& why) {
  throw ShapeError("einsum(\"" + equation + "\"): " + why);
}

Equation parse(const std::string& equation) {
  const std::string text = filter(equation, [](char c) { return c != ' '; });
  const auto arrow = text.find("->");
  Equation parsed{{""}, ""};
  for (const char c : text.substr(0, arrow)) {
    std::string& labels = parsed.operands.back();
    if (c == ',') {
      parsed.operands.emplace_back();
    } else if (std::isalpha(static_cast<unsigned char>(c)) == 0) {
      refuse(equation, std::string("'") + c + "' is not a letter; write one letter per dimension");
    } else if (has(labels, c)) {
      refuse(equation,
             std::string("'") + c + "' occurs twice in one operand; diagonals are not " + "taken");
    } else {
      labels += c;
    }
  }
  std::map<char, int> operands_with;
  for (const std::string& labels : parsed.operands) {
    for (const char c : labels) ++operands_with[c];
  }
  // without an arrow: letters that occur once, in alphabetical order
  if (arrow == std::string::npos) {
    for (const auto& [label, count] : operands_with) {
      if (count == 1) parsed.result += label;
    }
    return parsed;
  }
  for (const char c : text.substr(arrow + 2)) {
    if (!operands_with.contains(c) || has(parsed.result, c))
      refuse(equation, std::string("the result has '") + c + "' twice, or no operand has it");
    parsed.result += c;
  }
  return parsed;
}

/// Sums over the labels that are not wanted.
Labelled summed(const Labelled& x, const std::string& wanted) {
  std::vector<int> dims;
  for (std::size_t d = 0; d < x.labels.size(); ++d) {
    if (!has(wanted, x.labels[d])) dims.push_back(static_cast<int>(d));
  }
  if (dims.empty()) return x;
  return {sum(x.tensor, Dims(dims)), filter(x.labels, [&](char c) { return has(wanted, c); })};
}

/// Permutes the dimensions into the order of `labels`, which has the same letters.
Variable arranged(const Labelled& x, const std::string& labels) {
  if (labels == x.labels) return x.tensor;
  std::vector<int> dims;
  for (const char c : labels) dims.push_back(static_cast<int>(x.labels.find(c)));
  return permute(x.tensor, Dims(dims));
}

/// Combines both by a batched matrix product over their common labels that are not wanted later.
Labelled product(const Labelled& whole_a, const Labelled& whole_b, const std::string& wanted,
                 const std::map<char, std::int64_t>& extents) {
  const Labelled a = summed(whole_a, whole_b.labels + wanted),
                 b = summed(whole_b, whole_a.labels + wanted);
  const auto in_b = [&](char c) { return has(b.labels, c); };
  const std::string batch = filter(a.labels, [&](char c) { return in_b(c) && has(wanted, c); }),
                    inner = filter(a.labels, [&](char c) { return in_b(c) && !has(wanted, c); }),
                    rows = filter(a.labels, [&](char c) { return !in_b(c); }),
                    columns = filter(b.labels, [&](char c) { return !has(a.labels, c); });
  const auto extents_of = [&](const std::string& labels) {
    std::vector<std::int64_t> of;
    for (const char c : labels) of.push_back(extents.at(c));
    return Shape(std::span<const std::int64_t>(of));
  };
  const auto count = [&](const std::string& labels) { return extents_of(labels).numel(); };
  const Variable y = matmul(
      reshape(arranged(a, batch + rows + inner), {count(batch), count(rows), count(inner)}),
      reshape(arranged(b, batch + inner + columns), {count(batch), count(inner), count(columns)}));
  const std::string labels = batch + rows + columns;
  return {reshape(y, extents_of(labels)), labels};
}

}  // namespace

Variable einsum(const std::string& equation, std::span<const Variable> operands) {
  const Equation parsed = parse(equation);
  if (parsed.operands.size() != operands.size()) {
    refuse(equation, "it is of " + std::to_string(parsed.operands.size()) + " operands, not of " +
                         std::to_string(operands.size()));
  }
  std::map<char, std::int64_t> extents;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string& labels = parsed.operands[i];
    const Shape& shape = operands[i].shape();
    if (std::ssize(labels) != shape.dims())
      refuse(equation, "\"" + labels + "\" is not of " + describe(operands[i].data()));
    for (int d = 0; d < shape.dims(); ++d) {
      const char label = labels[static_cast<std::size_t>(d)];
      const auto [known, is_new] = extents.emplace(label, shape[d]);
      if (is_new || known->second == shape[d]) continue;
      refuse(equation, std::string("'") + label + "' is " + std::to_string(known->second) +
                           " and " + std::to_string(shape[d]));
    }
  }
  Labelled so_far{operands[0], parsed.operands[0]};
  for (std::size_t i = 1; i < operands.size(); ++i) {
    std::string wanted = parsed.result;
    for (std::size_t later = i + 1; later < operands.size(); ++later)
      wanted += parsed.operands[later];
    so_far = product(so_far, {operands[i], parsed.operands[i]}, wanted, extents);
  }
  return arranged(summed(so_far, parsed.result), parsed.result);
}

}  // namespace lockstep
