// Every collective and a message, from 4 B to 64 MiB, three ways in turn: Lockstep's on ordinary
// tensors ("private"), Lockstep's on tensors of shared_buffer ("shared"), and MPI's blocking call
// on the former's bytes ("mpi"). "bytes" is nccl-tests' size: the tensor of all_reduce, broadcast,
// reduce and send_recv, the larger of the two tensors of the others.
//   mpiexec -n 2 -bind-to core build/release/benchmarks/comm/comm.collectives_bench
//       [--benchmark_filter=all_reduce] [--benchmark_out=FILE]
// Over pretended nodes, where only one rank of each sends to the other:
//   mpiexec -n 4 build/release/benchmarks/comm/comm.collectives_bench --nodes=2,2
//       --benchmark_filter=all_reduce/bytes:26214400
#include <mpi.h>

#include <cstring>
#include <lockstep/tensor/half.hpp>
#include <support/mpi_bench.hpp>
#include <support/sides.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t largest = 64 << 20;

/// The tensors of one benchmark: on each side an input and an output of at most 64 MiB.
struct Buffers {
  Tensor input, output;
};

/// Memory used by all benchmarks in turn; shared memory stays until the group is closed.
const Buffers& arena(bool shared) {
  const auto make = [](bool in_shared) {
    auto& world = bench::world();
    const auto one = [&] {
      return in_shared ? world.shared_buffer({largest}, DType::u8)
                       : Tensor::zeros({largest}, DType::u8);
    };
    Buffers both{one(), one()};
    return both;
  };
  static const Buffers ordinary = make(false), in_shared_memory = make(true);
  return shared ? in_shared_memory : ordinary;
}

Tensor part_of(const Tensor& memory, const Shape& shape, DType dtype) {
  Tensor t = Tensor::over(memory.storage(), memory.offset_bytes(), shape, dtype);
  t.zero();
  return t;
}

enum class Kind {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  send_recv
};

/// Factor of the bus bandwidth: the bytes that the busiest link must carry, over the size. NVIDIA/
/// nccl-tests, doc/PERFORMANCE.md; derived in docs/reference/performance.md.
double bus_factor(Kind kind, double n) {
  switch (kind) {
    case Kind::all_reduce:
      return 2 * (n - 1) / n;
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return (n - 1) / n;
    default:
      return 1;
  }
}

Buffers buffers_for(Kind kind, std::int64_t bytes, DType dtype, const Buffers& memory) {
  const std::int64_t n = bench::world().size();
  const std::int64_t numel = bytes / static_cast<std::int64_t>(size_of(dtype));
  const Shape row{std::max<std::int64_t>(1, numel / n)}, rows{n, row[0]}, all{numel};
  const auto two = [&](const Shape& input, const Shape& output) {
    return Buffers{part_of(memory.input, input, dtype), part_of(memory.output, output, dtype)};
  };
  switch (kind) {
    case Kind::all_gather:
      return two(row, rows);
    case Kind::reduce_scatter:
      return two(rows, row);
    case Kind::all_to_all:
      return two(rows, rows);
    default:
      return two(all, all);
  }
}

void ours(Kind kind, const Buffers& t) {
  ProcessGroup& world = bench::world();
  switch (kind) {
    case Kind::all_reduce:
      return world.all_reduce(t.input, ReduceOp::sum).wait();
    case Kind::broadcast:
      return world.broadcast(t.input, 0).wait();
    case Kind::reduce:
      return world.reduce(t.input, t.output, 0, ReduceOp::sum).wait();
    case Kind::all_gather:
      return world.all_gather(t.input, t.output).wait();
    case Kind::reduce_scatter:
      return world.reduce_scatter(t.input, t.output, ReduceOp::sum).wait();
    case Kind::all_to_all:
      return world.all_to_all(t.input, t.output).wait();
    case Kind::send_recv:
      if (world.rank() == 0) {
        world.send(t.input, 1);
        world.recv(t.input, 1);
      } else if (world.rank() == 1) {
        world.recv(t.input, 0);
        world.send(t.input, 0);
      }
      return;
  }
}

// MPI has no bfloat16: the code of an MPI user instead.
void add_bf16(void* in, void* in_out, int* count, MPI_Datatype* /*type*/) {
  const auto* a = static_cast<const BFloat16*>(in);
  auto* b = static_cast<BFloat16*>(in_out);
  for (int i = 0; i < *count; ++i) b[i] = BFloat16(float{a[i]} + float{b[i]});
}

struct MpiWords {
  MPI_Datatype type;
  MPI_Op sum;
};
MpiWords mpi_words(DType dtype) {
  if (dtype == DType::f32) return {MPI_FLOAT, MPI_SUM};
  static const MpiWords bf16 = [] {
    MpiWords words{};
    MPI_Type_contiguous(2, MPI_BYTE, &words.type);
    MPI_Type_commit(&words.type);
    MPI_Op_create(add_bf16, 1, &words.sum);
    return words;
  }();
  return bf16;
}

void raw_mpi(Kind kind, const Buffers& t, const MpiWords& words) {
  const auto [type, sum] = words;
  void *in = t.input.data(), *out = t.output.data();
  MPI_Comm comm = MPI_COMM_WORLD;
  const int rank = bench::world().rank(), size = bench::world().size();
  const int count = static_cast<int>(t.input.numel());
  switch (kind) {
    case Kind::all_reduce:
      MPI_Allreduce(MPI_IN_PLACE, in, count, type, sum, comm);
      return;
    case Kind::broadcast:
      MPI_Bcast(in, count, type, 0, comm);
      return;
    case Kind::reduce:
      MPI_Reduce(in, out, count, type, sum, 0, comm);
      return;
    case Kind::all_gather:
      MPI_Allgather(in, count, type, out, count, type, comm);
      return;
    case Kind::reduce_scatter:
      MPI_Reduce_scatter_block(in, out, count / size, type, sum, comm);
      return;
    case Kind::all_to_all:
      MPI_Alltoall(in, count / size, type, out, count / size, type, comm);
      return;
    case Kind::send_recv:
      if (rank == 0) {
        MPI_Send(in, count, type, 1, 0, comm);
        MPI_Recv(in, count, type, 1, 0, comm, MPI_STATUS_IGNORE);
      } else if (rank == 1) {
        MPI_Recv(in, count, type, 0, 0, comm, MPI_STATUS_IGNORE);
        MPI_Send(in, count, type, 0, 0, comm);
      }
      return;
  }
}

/// The memory limit of an all_reduce: a = b = a + b. Each rank's two halves of `bytes` make all
/// ranks together read and write as much as an all_reduce of `bytes` does.
void add_both(const Buffers& memory, std::int64_t bytes) {
  auto* a = static_cast<float*>(memory.input.data());
  auto* b = static_cast<float*>(memory.output.data());
  const std::int64_t numel = bytes / 8;
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) a[i] = b[i] = a[i] + b[i];
  benchmark::ClobberMemory();
}

void collective(benchmark::State& state, Kind kind, DType dtype) {
  const std::int64_t bytes = state.range(0);
  const int n = bench::world().size();
  if (kind == Kind::send_recv && n < 2) return state.SkipWithError("needs 2 ranks");
  const Buffers ordinary = buffers_for(kind, bytes, dtype, arena(false));
  const Buffers shared = buffers_for(kind, bytes, dtype, arena(true));
  const MpiWords words = mpi_words(dtype);
  // A round trip carries the message twice.
  const double bus_bytes =
      static_cast<double>(bytes) * bus_factor(kind, n) * (kind == Kind::send_recv ? 2 : 1);
  for (auto _ : state) {
    bench::Sides sides;
    sides.add("private", [&] { ours(kind, ordinary); });
    sides.add("shared", [&] { ours(kind, shared); });
    sides.add("mpi", [&] { raw_mpi(kind, ordinary, words); });
    const bool beside_memory = kind == Kind::all_reduce && dtype == DType::f32 && bytes >= 1 << 14;
    if (beside_memory) sides.add("memory", [&] { add_both(arena(false), bytes); });
    sides.run();
    sides.report(state, bus_bytes);
    const double mpi = sides.median_us("mpi");
    state.counters["private/mpi"] = sides.median_us("private") / mpi;
    state.counters["mpi/shared"] = mpi / sides.median_us("shared");
    if (beside_memory) {
      state.counters["of_memory"] = sides.median_us("memory") / sides.median_us("shared");
    }
  }
}

void add_benchmark(const std::string& name, Kind kind, DType dtype) {
  auto* made = benchmark::RegisterBenchmark(
      name.c_str(), [=](benchmark::State& state) { collective(state, kind, dtype); });
  made->UseManualTime()->ArgName("bytes")->Iterations(1)->Unit(benchmark::kMicrosecond);
  for (const std::int64_t bytes :
       {4L, 64L, 256L, 1L << 10, 16L << 10, 256L << 10, 1L << 20, 4L << 20, 25L << 20, 64L << 20}) {
    made->Arg(bytes);
  }
}

[[maybe_unused]] const bool registered = [] {
  for (const auto& [name, kind] : {std::pair{"all_reduce", Kind::all_reduce},
                                   {"broadcast", Kind::broadcast},
                                   {"reduce", Kind::reduce},
                                   {"all_gather", Kind::all_gather},
                                   {"reduce_scatter", Kind::reduce_scatter},
                                   {"all_to_all", Kind::all_to_all},
                                   {"send_recv", Kind::send_recv}}) {
    add_benchmark(name, kind, DType::f32);
    const bool reduces =
        kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
    if (reduces) add_benchmark(std::string(name) + "_bf16", kind, DType::bf16);
  }
  return true;
}();

}  // namespace
}  // namespace lockstep
