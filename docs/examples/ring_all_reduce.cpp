#include <cstdio>
#include <lockstep/lockstep.hpp>

using namespace lockstep;

/// Sums `data`, of one dimension, over all ranks. Chunks travel around the ring twice: once to be
/// added up, once to be handed out.
void ring_all_reduce(ProcessGroup& group, const Tensor& data) {
  const int rank = group.rank(), size = group.size();
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  const auto chunk = [&](int number) {
    const std::int64_t i = (number + 2 * size) % size, n = data.numel();
    return data.slice(n * i / size, n * (i + 1) / size);
  };
  const Tensor buffer = Tensor::empty({data.numel() / size + 1});

  // Reduce-scatter: after size - 1 rounds chunk rank + 1 holds the sum of all ranks.
  for (int round = 0; round < size - 1; ++round) {
    const Tensor sum = chunk(rank - round - 1);
    const Tensor arrived = buffer.slice(0, sum.numel());
    Work sent = group.isend(chunk(rank - round), right);
    group.recv(arrived, left);
    sum += arrived;
    sent.wait();
  }
  // All-gather: each finished chunk goes around.
  for (int round = 0; round < size - 1; ++round) {
    Work sent = group.isend(chunk(rank - round + 1), right);
    group.recv(chunk(rank - round), left);
    sent.wait();
  }
}

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);

  // Small whole numbers: their sums are exact in any order, so that results are equal bit by bit.
  std::vector<float> elements;
  for (int i = 0; i < 1001; ++i)
    elements.push_back(static_cast<float>((i * 7 + group->rank() * 13) % 100));
  const Tensor mine = Tensor::from(elements), expected = Tensor::from(elements);

  ring_all_reduce(*group, mine);
  group->all_reduce(expected, ReduceOp::sum).wait();
  const bool equal = mine.to_vector<float>() == expected.to_vector<float>();

  const double ranks = all_reduce_scalar(*group, equal ? 1 : 0, ReduceOp::sum);
  if (group->rank() == 0)
    std::printf("ring and all_reduce agree on %g of %d ranks\n", ranks, group->size());
  group->close();
  return equal ? 0 : 1;
}
