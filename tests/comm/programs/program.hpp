#pragma once
// Small MPI programs that make and end MPI themselves, each started by CTest under its own mpiexec.
// They print errors and return 1; GoogleTest must not come between them and MPI.
#include <cstdio>
#include <fstream>
#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep::test {

inline int failures = 0;

inline void expect(bool condition, const std::string& claim) {
  if (condition) return;
  std::fprintf(stderr, "FAILED: %s\n", claim.c_str());
  ++failures;
}

/// The message of the E that `call` throws; complains if it throws none.
template <class E, class Call>
std::string thrown_by(const Call& call, const std::string& what) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    expect(false, what + " threw something else: " + error.what());
    return "";
  }
  expect(false, what + " did not throw");
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Writes `file`; its time tells the starting process when this happened.
inline void mark(const char* file) { std::ofstream(file) << "now\n"; }

}  // namespace lockstep::test
