// Every case of ops.h5, forward and backward, in f32 and f64. Shapes, attributes and inputs come
// from the file.
#include <gtest/gtest.h>

#include <set>

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

TEST(GoldenOps, EveryCaseAgreesAndNothingOfTheFileIsLeftUnread) {
  const Checks checks = all_checks();
  const GoldenFile file("ops.h5");
  std::set<std::string> operations;
  for (const auto& group : file.groups("")) {
    const std::string op = *operations.insert(file.text(group, "op")).first;
    const auto check = checks.find(op);
    if (check == checks.end()) {
      ADD_FAILURE() << "nothing checks " << group << ", a case of " << op;
      continue;
    }
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(group + " in " + std::string(name_of(dtype)));
      Case c(file, group, dtype);
      ASSERT_NO_THROW(check->second(c));
    }
  }
  for (const auto& [op, check] : checks) {
    EXPECT_TRUE(operations.contains(op)) << "ops.h5 has no case of " << op;
  }
  EXPECT_EQ(file.unread(""), std::vector<std::string>{});
}

}  // namespace
}  // namespace lockstep::test
