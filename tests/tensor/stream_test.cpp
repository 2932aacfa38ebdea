#include <lockstep/tensor/stream.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep {
namespace {

TEST(Stream, EachThreadHasItsOwn) {
  const Stream* mine = &current_stream();
  EXPECT_EQ(&current_stream(), mine);
  EXPECT_EQ(current_stream().device(), Device{});
  const Stream* theirs = mine;
  std::jthread([&] { theirs = &current_stream(); }).join();
  EXPECT_NE(theirs, mine);
}

TEST(Stream, OnTheHostWorkIsDoneWhenTheCallReturns) {
  const Tensor t = Tensor::full({1000}, 3);
  current_stream().synchronize();
  EXPECT_EQ(t.to_vector<float>(), std::vector<float>(1000, 3.0F));
}

#ifdef KOKKOS_ENABLE_CUDA
TEST(Dispatch, TheHostNeedsNoKokkosWithCuda) {
  const bool before = Kokkos::is_initialized();  // by a test on a GPU
  ensure_kokkos();
  EXPECT_EQ(Tensor::full({3}, 2).to_vector<float>(), std::vector<float>(3, 2.0F));
  EXPECT_EQ(Kokkos::is_initialized(), before);
}
#else
TEST(Dispatch, KokkosIsInitialisedOnceByWhicheverThreadIsFirst) {
  std::vector<std::jthread> team;
  for (int t = 0; t < 4; ++t) team.emplace_back([] { ensure_kokkos(); });
  team.clear();
  EXPECT_TRUE(Kokkos::is_initialized());
}

// In a process of its own: tools are there before Kokkos is initialised.
TEST(DispatchDeathTest, AToolOfKokkosSeesHostKernels) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fill_with_a_tool = [] {
    namespace tools = Kokkos::Tools::Experimental;
    tools::set_begin_parallel_for_callback([](const char* name, std::uint32_t, std::uint64_t* id) {
      *id = 7;
      std::fprintf(stderr, "%s began\n", name);
    });
    tools::set_end_parallel_for_callback(
        [](std::uint64_t id) { std::fprintf(stderr, "%d ended\n", static_cast<int>(id)); });
    static_cast<void>(Tensor::full({3}, 2));
    std::exit(0);
  };
  EXPECT_EXIT(fill_with_a_tool(), testing::ExitedWithCode(0), "lockstep::fill began\n7 ended\n");
}
#endif

TEST(Dispatch, FloatingOnlyNamesTheOperation) {
  try {
    dispatch_floating(DType::u8, "my_operation", []<class T>() {});
    FAIL() << "u8 was taken for a floating dtype";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("my_operation"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("u8"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
