#include <lockstep/autograd/functional/embedding.hpp>
#include <lockstep/autograd/functional/embedding_bag.hpp>
#include <lockstep/tensor/kernels/sequence/embedding_bag.hpp>

#include "operations.hpp"

namespace lockstep::test {
namespace {

/// 64 rows out of 50, several of them chosen more than once; made once, and copied to where the
/// table is.
Tensor index(const Variable& table) {
  static const Tensor chosen = [] {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < 64; ++i) values.push_back(i * i % 50);
    return Tensor::from(values, {4, 16});
  }();
  return chosen.to(table.data().device());
}

/// 200 times one of two rows.
Tensor kinds(const Variable& table) {
  static const Tensor chosen = [] {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < 200; ++i) values.push_back(i * i % 7 % 2);
    return Tensor::from(values, {10, 20});
  }();
  return chosen.to(table.data().device());
}

}  // namespace

Operations embedding_operations() {
  return {
      {"embedding", {{50, 33}}, [](const Inputs& v) { return embedding(index(v[0]), v[0], 4); }},
      {"embedding_of_two_rows",
       {{2, 33}},
       [](const Inputs& v) { return embedding(kinds(v[0]), v[0]); }},
      {"embedding_bag_mean",
       {{50, 33}},
       [](const Inputs& v) { return embedding_bag(index(v[0]), v[0], {}, BagMode::mean, {}, 4); }},
      {"embedding_bag_max",
       {{50, 33}},
       [](const Inputs& v) { return embedding_bag(index(v[0]), v[0], {}, BagMode::max); }},
      {"embedding_bag_weighted", {{50, 33}, {4, 16}}, [](const Inputs& v) {
         return embedding_bag(index(v[0]), v[0], {}, BagMode::sum, v[1]);
       }}};
}

}  // namespace lockstep::test
