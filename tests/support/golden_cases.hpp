#pragma once
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include <lockstep/tensor/dtype.hpp>
#include "golden_file.hpp"

namespace lockstep::test {

/// Runs every case of a golden file in f32 and f64 with the check of its operation; `checks` maps
/// the operation's name to a function of a Case(file, group, dtype). Fails for a case without a
/// check, a check without a case, and unread data. Groups in `others` are not cases.
template <class Case, class Checks>
void check_golden_cases(const GoldenFile& file, const Checks& checks,
                        const std::set<std::string>& others = {}) {
  std::set<std::string> seen;
  for (const auto& group : file.groups("")) {
    if (others.contains(group)) continue;
    const std::string op = *seen.insert(file.text(group, "op")).first;
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
    EXPECT_EQ(file.unread(group), std::vector<std::string>{});
  }
  for (const auto& [op, check] : checks) EXPECT_TRUE(seen.contains(op)) << "no case of " << op;
  if (others.empty()) {
    EXPECT_EQ(file.unread(""), std::vector<std::string>{});
  }
}

}  // namespace lockstep::test
