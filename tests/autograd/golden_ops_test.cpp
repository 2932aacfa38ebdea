// Every case of ops.h5 whose operation is built, forward and backward, in f32 and f64. Shapes,
// attributes and inputs come from the file; what is not built yet is listed and counted.
#include <gtest/gtest.h>

#include <cstdio>

#include "golden_ops/case.hpp"

namespace lockstep::test {
namespace {

Checks all_checks() {
  Checks all;
  for (const auto& checks :
       {activation_checks(), arithmetic_checks(), attention_checks(), batch_norm_checks(),
        conv_checks(), embedding_checks(), linear_checks(), loss_checks(), matmul_checks(),
        norm_checks(), reduction_checks(), regression_loss_checks(), shape_checks()}) {
    all.insert(checks.begin(), checks.end());
  }
  return all;
}

TEST(GoldenOps, EveryCaseOfEveryBuiltOperationAgrees) {
  const Checks built = all_checks();
  const GoldenFile file("ops.h5");
  std::map<std::string, int> cases, missing;
  for (const auto& group : file.groups("")) {
    const std::string op = file.text(group, "op");
    ++(built.contains(op) ? cases : missing)[op];
  }

  int checked = 0;
  for (const auto& group : file.groups("")) {
    const auto run = built.find(file.text(group, "op"));
    if (run == built.end()) continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(group + " in " + std::string(name_of(dtype)));
      Case c(file, group, dtype);
      ASSERT_NO_THROW(run->second(c));
    }
    ++checked;
  }

  int expected = 0;
  for (const auto& [op, run] : built) {
    EXPECT_GT(cases[op], 0) << "ops.h5 has no case of " << op;
    expected += cases[op];
  }
  EXPECT_EQ(checked, expected);
  EXPECT_GT(checked, 0);

  int not_checked = 0;
  std::string list;
  for (const auto& [op, count] : missing) {
    not_checked += count;
    list += (list.empty() ? "" : ", ") + op + " (" + std::to_string(count) +
            (count == 1 ? " case)" : " cases)");
  }
  std::printf("checked %d cases of %zu operations\n", checked, built.size());
  std::printf("not built yet: %d cases: %s\n", not_checked, list.empty() ? "none" : list.c_str());
}

}  // namespace
}  // namespace lockstep::test
