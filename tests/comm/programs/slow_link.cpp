// An all-reduce of 25 MiB between two hosts is hidden behind computing that takes twice as long, by
// a thread that moves it on, or by calls in between; without either it is in part. Arguments: the
// interface of the slow link, and its Gbit/s. Started by slow_link.sh.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <vector>

#include <comm/programs/program.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/node_layout.hpp>

using namespace lockstep;
using test::expect;

namespace {

constexpr std::int64_t bytes = 25 << 20;
constexpr int slices = 100;  // of the computing, between which "calls" has its calls

/// Computes in registers for this many seconds of the thread's processor time: if others use the
/// core meanwhile, or the core is slower than before, the work takes longer but stays the same.
void compute(double seconds) {
  const auto processor_s = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  std::array<float, 64> x{};
  for (const double end = processor_s() + seconds; processor_s() < end;) {
    for (int round = 0; round < 1000; ++round) {
      for (float& value : x) value = value * 0.999F + 0.5F;
    }
  }
  if (x[0] < 0.0F) std::puts("never");  // so that the compiler must compute it
}

/// Bytes that came in and went out, whichever is less.
double carried(const std::string& interface) {
  std::ifstream table("/proc/net/dev");
  for (std::string line; std::getline(table, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !test::contains(line.substr(0, colon), interface)) continue;
    std::istringstream fields(line.substr(colon + 1));
    std::array<double, 9> field{};  // 0: bytes received, 8: bytes sent
    for (double& value : field) fields >> value;
    return std::min(field[0], field[8]);
  }
  expect(false, "there is no interface " + interface);
  return 0.0;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Seconds, of the slower rank, in each round.
struct Timing {
  std::vector<double> totals, waits;

  [[nodiscard]] double total() const { return median(totals); }
  [[nodiscard]] double wait() const { return median(waits); }
  /// Collective.
  void take(double total_s, double wait_s) {
    std::array<double, 2> both{total_s, wait_s};
    MPI_Allreduce(MPI_IN_PLACE, both.data(), 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    totals.push_back(both[0]);
    waits.push_back(both[1]);
  }
};

/// Starts, computes, waits.
template <class Start, class Computing>
void measure(ProcessGroup& group, Timing& timing, const Start& start, const Computing& computing) {
  group.barrier();
  const auto begin = Clock::now();
  Work work = start();
  computing(work);
  const auto computed = Clock::now();
  work.wait();
  timing.take(seconds_since(begin), seconds_since(computed));
}

struct Figures {
  double compute_s;
  Timing compute, all_reduce, neither, calls, thread;

  /// Little is left after the computing, and both together are faster than one after the other: not
  /// by all of it, since the computing cores also copy and add the received data.
  [[nodiscard]] bool hidden(const Timing& both) const {
    return both.wait() <= 0.25 * all_reduce.total() && is_faster(both, 0.15);
  }
  /// Faster than computing and all-reduce in turn, by that part of the all-reduce; not checked if
  /// others compute on these cores, because both must then wait for them.
  [[nodiscard]] bool is_faster(const Timing& both, double part) const {
    const bool busy = compute.total() > 1.25 * compute_s;
    return busy || both.total() <= compute.total() + (1.0 - part) * all_reduce.total();
  }
  [[nodiscard]] bool as_claimed() const {
    return is_faster(neither, 0.0) && hidden(calls) && hidden(thread);
  }
  void print() const {
    std::printf("%-34s %5.1f ms\n", "computing", 1e3 * compute.total());
    std::printf("%-34s %5.1f ms\n", "all-reduce of 25 MiB", 1e3 * all_reduce.total());
    const auto line = [&](const char* how, const Timing& both) {
      std::printf("both, %-28s %5.1f ms, of which %4.1f waiting after the computing\n", how,
                  1e3 * both.total(), 1e3 * both.wait());
    };
    line("no calls", neither);
    line("100 calls of test()", calls);
    line("a thread", thread);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const std::string interface = argv[1];
  const double link_s = 8.0 * bytes / (std::atof(argv[2]) * 1e9);
  const auto polling = make_mpi_group(MPI_COMM_WORLD, {.progress = Progress::poll});
  const auto threaded = make_mpi_group(MPI_COMM_WORLD, {.progress = Progress::thread});
  expect(node_layout(*polling).hosts().size() == 2, "the ranks are not on two hosts");

  const auto t = Tensor::full({bytes / 4}, 1.0);
  threaded->all_reduce(t, ReduceOp::sum).wait();
  const std::vector<float> twos(bytes / 4, 2.0F);
  expect(t.to_vector<float>() == twos, "the sum is wrong");
  t.fill(0.0);  // whatever the number of sums
  const double compute_s = 2.0 * link_s;
  const auto all_reduce = [&](ProcessGroup& group) {
    return [&] { return group.all_reduce(t, ReduceOp::sum); };
  };
  const auto nothing = [] { return Work(); };
  const auto idle = [](const Work&) {};
  const auto in_one = [&](const Work&) { compute(compute_s); };
  const auto with_calls = [&](Work& work) {
    for (int slice = 0; slice < slices; ++slice) {
      compute(compute_s / slices);
      static_cast<void>(work.test());
    }
  };

  // On a busy machine few rounds prove nothing.
  constexpr int fewest = 8, most = 40;
  Figures figures{.compute_s = compute_s};
  const double before = carried(interface);
  int round = 0;
  while (round < fewest || (round < most && !figures.as_claimed())) {
    ++round;
    measure(*polling, figures.compute, nothing, in_one);
    measure(*polling, figures.all_reduce, all_reduce(*polling), idle);
    measure(*polling, figures.neither, all_reduce(*polling), in_one);
    measure(*polling, figures.calls, all_reduce(*polling), with_calls);
    measure(*threaded, figures.thread, all_reduce(*threaded), in_one);
  }
  const double each = (carried(interface) - before) / (4.0 * round);

  if (polling->rank() == 0) {
    std::printf("medians of %d rounds; the link carried %.1f MiB each way an all-reduce\n", round,
                each / (1 << 20));
    figures.print();
    expect(each >= static_cast<double>(bytes), "the all-reduces did not go over the link");
    expect(figures.all_reduce.total() >= 0.9 * link_s, "the link is not slow");
    expect(figures.is_faster(figures.neither, 0.0), "without a call nothing of it is hidden");
    expect(figures.hidden(figures.calls), "calls hide too little of it");
    expect(figures.hidden(figures.thread), "the thread hides too little of it");
  }
  polling->close();
  threaded->close();
  return test::failures ? 1 : 0;
}
