#include <lockstep/autograd/functional/shape.hpp>

#include "operations.hpp"

namespace lockstep::test {

namespace {

/// For each of 64 rows 9 of 51 columns, some twice; made once.
Tensor nine_of_each_row(const Variable& x) {
  static const Tensor index = [] {
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < 64 * 9; ++i) chosen.push_back(i * i % 51);
    return Tensor::from(chosen, {64, 9});
  }();
  return index.to(x.data().device());
}

/// Of 51 elements 300, each several times.
Tensor many_of_few(const Variable& x) {
  static const Tensor index = [] {
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < 300; ++i) chosen.push_back(i * i % 51);
    return Tensor::from(chosen);
  }();
  return index.to(x.data().device());
}

}  // namespace

Operations shape_operations() {
  return {
      {"gather",
       {{64, 51}},
       [](const Inputs& v) { return gather(v[0], 1, nine_of_each_row(v[0])); }},
      {"gather_of_one_row",
       {{51}},
       [](const Inputs& v) { return gather(v[0], 0, many_of_few(v[0])); }},

      {"flatten", {{8, 20, 4, 4}}, [](const Inputs& v) { return flatten(v[0], 1); }},
      {"transpose_last", {{4, 70, 45}}, [](const Inputs& v) { return transpose(v[0], 1, 2); }},
      {"transpose_heads", {{4, 49, 6, 32}}, [](const Inputs& v) { return transpose(v[0], 1, 2); }},
      {"permute",
       {{4, 7, 6, 5}},
       [](const Inputs& v) {
         return permute(v[0], {2, 0, 3, 1});
       }},
      {"narrow", {{8, 20, 16}}, [](const Inputs& v) { return narrow(v[0], 1, 3, 9); }},
      {"concat",
       {{8, 5, 16}, {8, 1, 16}, {8, 7, 16}},
       [](const Inputs& v) { return concat(v, 1); }},
      {"concat_of_many",
       {{3}, {2}, {1}, {3}, {2}, {1}, {3}, {2}, {1}, {3}, {2}, {1}, {3}, {2}, {1}, {3}, {2}},
       [](const Inputs& v) { return concat(v); }}};
}

}  // namespace lockstep::test
