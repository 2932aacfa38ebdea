#include <mpi.h>

#include <cstdio>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <sstream>
#include <string>
#include <vector>

using namespace lockstep;

std::string line(const char* name, const Tensor& t) {
  std::ostringstream out;
  out << "  " << name << ':';
  for (const float x : t.to_vector<float>()) out << ' ' << x;
  out << '\n';
  return out.str();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);  // any communicator; it is duplicated
  const int rank = group->rank(), size = group->size();
  const auto of_rank = [&](const Shape& shape) { return Tensor::full(shape, rank + 1); };

  const auto sum = of_rank({2});  // 1 1 on rank 0, 2 2 on rank 1 ...
  group->all_reduce(sum, ReduceOp::sum).wait();

  const auto from_last = of_rank({2});
  group->broadcast(from_last, size - 1).wait();

  const auto everybody = Tensor::zeros({size, 1});
  group->all_gather(of_rank({1}), everybody).wait();

  const auto row = Tensor::zeros({2});
  group->reduce_scatter(of_rank({size, 2}), row, ReduceOp::max).wait();

  std::vector<float> to_each;  // 10 for rank 0, 11 for rank 1 ... on rank 0; 20, 21 ... on rank 1
  for (int r = 0; r < size; ++r) to_each.push_back(static_cast<float>(10 * (rank + 1) + r));
  const auto received = Tensor::zeros({size, 1});
  group->all_to_all(Tensor::from(to_each, {size, 1}), received).wait();

  // Parts of different length: rank r brings r + 1 rows. Only rank 0 gets them.
  std::vector<std::int64_t> counts;
  std::int64_t rows = 0;
  for (int r = 0; r < size; ++r) rows += counts.emplace_back(r + 1);
  const auto gathered = Tensor::zeros({rank == 0 ? rows : 0});
  group->gather_v(of_rank({rank + 1}), gathered, counts, 0).wait();

  // Every rank's lines, printed by rank 0 in rank order.
  const std::string mine = "rank " + std::to_string(rank) + "\n" + line("all_reduce", sum) +
                           line("broadcast", from_last) + line("all_gather", everybody) +
                           line("reduce_scatter", row) + line("all_to_all", received) +
                           line("gather_v", gathered);
  for (const std::string& lines : gather_object(*group, mine, 0)) std::printf("%s", lines.c_str());

  group->close();
  MPI_Finalize();
}
