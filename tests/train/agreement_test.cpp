#include <lockstep/train/run/failures.hpp>

#include <gtest/gtest.h>

#include <new>

#include <lockstep/io/file.hpp>

namespace lockstep::train {
namespace {

template <class E>
bool is_foreseen_when(const E& error) {
  try {
    throw error;
  } catch (...) {
    return is_foreseen();
  }
}

TEST(Foreseen, IsWhatMayHappenToAnyRun) {
  EXPECT_TRUE(is_foreseen_when(NonFiniteLoss("the loss is nan")));
  EXPECT_TRUE(is_foreseen_when(FileError("write", "a.h5", 28)));
  EXPECT_TRUE(is_foreseen_when(InputError("bad deck")));
  EXPECT_TRUE(is_foreseen_when(OutOfMemoryError("no memory for one tensor")));
  EXPECT_TRUE(is_foreseen_when(std::bad_alloc()));
}

TEST(Foreseen, IsNoFaultOfTheProgram) {
  EXPECT_FALSE(is_foreseen_when(Error("a tensor is undefined")));
  EXPECT_FALSE(is_foreseen_when(std::runtime_error("theirs")));
}

}  // namespace
}  // namespace lockstep::train
