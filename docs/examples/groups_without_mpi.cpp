#include <cstdio>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/comm/threads_group.hpp>

using namespace lockstep;

/// What is to be tested: it knows a ProcessGroup, and not which kind.
double mean_of_ranks(ProcessGroup& group) {
  const auto t = Tensor::full({1}, group.rank());
  group.all_reduce(t, ReduceOp::avg).wait();
  return t.item();
}

int main() {
  // Ranks are threads of this process: debuggers and ThreadSanitizer see all of them.
  run_ranks_as_threads(4, [](ProcessGroup& group) {
    const double mean = mean_of_ranks(group);
    if (group.rank() == 0) std::printf("mean of 4 ranks %g\n", mean);
  });

  // One rank of 4,096, alone: shapes, counts and plans are right; sums are not, nobody else is
  // there.
  FakeGroup one(4096, 3071);
  const auto everybody = Tensor::zeros({one.size(), 8});
  one.all_gather(Tensor::zeros({8}), everybody).wait();
  std::printf("rank %d of %d has sent %lld bytes\n", one.rank(), one.size(),
              static_cast<long long>(one.traffic().bytes));
}
