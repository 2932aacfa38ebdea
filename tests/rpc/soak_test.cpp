// Calls that call on at random, for as long as LOCKSTEP_RPC_SOAK_SECONDS says (0.5 by default),
// against the numbers that the same tree of calls gives without any.
#include <cstdlib>
#include <fstream>
#include <thread>

#include <rpc/workers.hpp>

#include <lockstep/base/philox.hpp>

namespace lockstep {
namespace {

/// What a call does, by its number alone.
struct Deed {
  explicit Deed(std::uint64_t seed) {
    const auto random = Philox(seed)(0, 0, 0, 0);
    stalls = random[0] % 16 == 0;
    calls_on = static_cast<int>(random[1] % 4);
    first_child = (static_cast<std::uint64_t>(random[2]) << 32U) + random[3];
  }
  /// Of a child's call.
  struct Call {
    explicit Call(std::uint64_t seed) : seed(seed) {
      const auto random = Philox(seed)(0, 0, 0, 1);
      worker = static_cast<int>(random[0] % 1000);
      waits_at_once = random[1] % 2 == 0;
      elements = random[2] % 8 == 0 ? 20'000 : random[2] % 40;
      by_reference = random[3] % 8 == 0;
    }
    std::uint64_t seed;
    int worker;
    std::int64_t elements;
    bool waits_at_once, by_reference;
  };
  [[nodiscard]] Call call(int i) const { return Call(first_child + static_cast<std::uint64_t>(i)); }

  bool stalls = false;
  int calls_on = 0;
  std::uint64_t first_child = 0;
};

std::int64_t expected(std::uint64_t seed, int depth) {
  const Deed deed(seed);
  std::int64_t sum = 1;
  for (int i = 0; depth > 0 && i < deed.calls_on; ++i) {
    const auto call = deed.call(i);
    sum += call.elements + expected(call.seed, depth - 1);
  }
  return sum;
}

/// 1, and what each call that it makes brings: the number of its argument's elements, and this.
std::int64_t wander(std::uint64_t seed, int depth, const Tensor& ones) {
  const Deed deed(seed);
  if (deed.stalls) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::int64_t sum = 1;
  for (const double one : ones.to_vector<double>()) sum += static_cast<std::int64_t>(one);
  std::vector<rpc::Future<std::int64_t>> later;
  std::vector<rpc::RRef<std::int64_t>> references;
  const auto workers = static_cast<int>(rpc::all_workers().size());
  for (int i = 0; depth > 0 && i < deed.calls_on; ++i) {
    const auto call = deed.call(i);
    const int worker = call.worker % workers;
    const Tensor argument = Tensor::full({call.elements}, 1.0, DType::f64);
    if (call.by_reference) {
      references.push_back(rpc::remote(worker, wander, call.seed, depth - 1, argument));
    } else if (call.waits_at_once) {
      sum += rpc::rpc_sync(worker, wander, call.seed, depth - 1, argument);
    } else {
      later.push_back(rpc::rpc_async(worker, wander, call.seed, depth - 1, argument));
    }
  }
  for (const auto& future : later) sum += future.wait();
  for (const auto& reference : references) sum += reference.to_here();
  return sum;
}
LOCKSTEP_RPC(wander);

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096 / (1 << 20);
}

TEST(Soak, RandomNestedCallsReturnTheirTreesSumsAndMemoryStaysFlat) {
  const char* const asked = std::getenv("LOCKSTEP_RPC_SOAK_SECONDS");
  const double seconds = asked ? std::atof(asked) : 0.5;
  test::on_workers([&](ProcessGroup& group) {
    const auto start = Clock::now();
    std::int64_t calls = 0;
    double warm_mib = 0;
    for (std::uint64_t round = 0; calls <= 5 || seconds_since(start) < seconds; ++round) {
      const std::uint64_t seed = round * 64 + static_cast<std::uint64_t>(group.rank());
      const int depth = static_cast<int>(round % 5);
      ASSERT_EQ(wander(seed, depth, Tensor::full({0}, 1.0, DType::f64)), expected(seed, depth))
          << "round " << round << " of rank " << group.rank();
      ++calls;
      if (warm_mib == 0 && seconds_since(start) > seconds / 4) warm_mib = resident_mib();
    }
    if (seconds < 10) return;
    EXPECT_LT(resident_mib() - warm_mib, 8.0) << calls << " rounds";
  });
}

}  // namespace
}  // namespace lockstep
