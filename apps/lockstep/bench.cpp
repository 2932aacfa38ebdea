#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/tensor/math/product_speed.hpp>
#include <lockstep/train/report/standard_output.hpp>
#include <lockstep/train/run/memory_limit.hpp>

#include "commands.hpp"
#include "scaling/bus_bandwidth.hpp"

namespace lockstep::utility {
namespace {

using Json = nlohmann::ordered_json;
using scaling::Collective;

constexpr std::int64_t largest = std::int64_t{25} << 20U;  // DDP's bucket

/// Of the slowest rank, as all wait for it. Collective.
double slowest(ProcessGroup& world, double seconds) {
  return all_reduce_scalar(world, seconds, ReduceOp::max);
}

/// One value of each rank, in rank order. Collective.
std::vector<double> of_all(ProcessGroup& world, double mine) {
  const Tensor all = Tensor::empty({world.size(), 1}, DType::f64);
  world.all_gather(Tensor::from(std::vector<double>{mine}, {1}), all).wait();
  return all.to_vector<double>();
}

/// Most work a second over calls of `body` by all ranks at the same time, for about `seconds`.
/// Collective.
template <class Body>
std::vector<double> most_a_second(ProcessGroup& world, double seconds, double work,
                                  const Body& body) {
  constexpr int least_calls = 3;  // the first one sets things up
  const auto begun = Clock::now();
  double best = 0;
  for (int call = 0;; ++call) {
    const bool goes_on = call < least_calls || seconds_since(begun) < seconds;
    if (slowest(world, goes_on ? 1 : 0) == 0) break;
    const auto start = Clock::now();
    body();
    best = std::max(best, work / seconds_since(start));
  }
  return of_all(world, best);
}

/// a = b + s c on arrays that no cache holds. McCalpin's STREAM counts 12 bytes an element of f32:
/// what reading a's line for writing costs is not counted.
Json memory(ProcessGroup& world, double seconds) {
  constexpr std::size_t elements = std::size_t{8} << 20U;
  std::vector<float> a(elements), b(elements, 1), c(elements, 2);
  const double bytes = 3.0 * sizeof(float) * static_cast<double>(elements);
  const auto speeds = most_a_second(world, seconds, bytes * 1e-9, [&] {
    float* const to = a.data();
    const float *const first = b.data(), *const second = c.data();
#pragma omp simd
    for (std::size_t i = 0; i < elements; ++i) to[i] = first[i] + 0.5F * second[i];
    b[0] = a[elements / 2];  // all of it is wanted
  });
  return {{"kernel", "a = b + s c, f32"}, {"array_bytes", bytes / 3}, {"gb_per_s", speeds}};
}

Json products(ProcessGroup& world, double seconds) {
  MeasuredProduct product;
  const auto speeds =
      most_a_second(world, seconds, MeasuredProduct::flops * 1e-9, [&] { product.run(); });
  return {{"kernel", "512 x 512 by 512 x 512, f32, one core a rank"}, {"gflop_per_s", speeds}};
}

/// Two tensors of `bytes`, where DDP's buckets lie.
struct Buffers {
  Tensor input, output;
};

Tensor part_of(const Tensor& memory, const Shape& shape) {
  return Tensor::over(memory.storage(), memory.offset_bytes(), shape, DType::f32);
}

void communicate(ProcessGroup& world, Collective kind, const Buffers& memory, std::int64_t row) {
  const std::int64_t n = world.size();
  const Tensor all = part_of(memory.input, {n, row});
  switch (kind) {
    case Collective::all_reduce:
      return world.all_reduce(all, ReduceOp::sum).wait();
    case Collective::broadcast:
      return world.broadcast(all, 0).wait();
    case Collective::all_gather:
      return world.all_gather(part_of(memory.output, {row}), all).wait();
    case Collective::reduce_scatter:
      return world.reduce_scatter(all, part_of(memory.output, {row}), ReduceOp::sum).wait();
  }
}

/// Five rounds of as many calls as `seconds` allow; a round's time is the slowest rank's.
/// Collective.
Json time_collective(ProcessGroup& world, Collective kind, const Buffers& memory,
                     std::int64_t bytes, double seconds) {
  constexpr int rounds = 5, most_calls = 200;
  const std::int64_t n = world.size();
  const std::int64_t row = std::max<std::int64_t>(1, bytes / 4 / n);
  const auto round = [&](int calls) {
    world.barrier();  // a late rank is not the collective's fault
    const auto start = Clock::now();
    for (int call = 0; call < calls; ++call) communicate(world, kind, memory, row);
    return slowest(world, seconds_since(start)) / calls;
  };
  static_cast<void>(round(1));
  const double once = round(1);
  const int calls = static_cast<int>(std::clamp(seconds / (rounds * once), 1.0, most_calls + 0.0));
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(round(calls));
  std::ranges::sort(times);
  const double median = times[rounds / 2];
  const auto real_bytes = static_cast<double>(4 * n * row);
  return {
      {"op", words(kind)},
      {"bytes", 4 * n * row},
      {"calls", rounds * calls},
      {"us", {{"median", 1e6 * median}, {"min", 1e6 * times.front()}, {"max", 1e6 * times.back()}}},
      {"algbw_gb_per_s", real_bytes / median * 1e-9},
      {"busbw_gb_per_s", real_bytes / median * 1e-9 * scaling::bus_factor(kind, world.size())}};
}

Json collectives(ProcessGroup& world, double seconds) {
  Json all = Json::array();
  if (world.size() == 1) return all;
  const auto elements = largest / 4 + world.size();
  const Buffers memory{world.shared_buffer({elements}, DType::f32),
                       world.shared_buffer({elements}, DType::f32)};
  const std::vector<std::int64_t> sizes{1 << 10, 1 << 14, 1 << 18, 1 << 22, largest};
  const double each = seconds / static_cast<double>(sizes.size() * scaling::collectives.size());
  for (const Collective kind : scaling::collectives) {
    for (const std::int64_t bytes : sizes)
      all.push_back(time_collective(world, kind, memory, bytes, each));
  }
  return all;
}

}  // namespace

ExitCode bench(int argc, char** argv, const BenchOptions& options) {
  train::expect_file_size();
  const MpiSession mpi(argc, argv);
  const auto world = make_mpi_group(MPI_COMM_WORLD);
  constexpr double share_of_each = 0.15;  // memory and products; the rest is for collectives
  Json result{{"ranks", world->size()}};
  result["memory"] = memory(*world, share_of_each * options.seconds);
  result["products"] = products(*world, share_of_each * options.seconds);
  result["collectives"] = collectives(*world, (1 - 2 * share_of_each) * options.seconds);
  if (world->rank() == 0) {
    const std::string text = result.dump(2) + "\n";
    if (options.output.empty()) {
      train::write_stdout(text);
    } else {
      write_atomically(options.output, text);
    }
  }
  world->close();
  return ExitCode::done;
}

}  // namespace lockstep::utility
