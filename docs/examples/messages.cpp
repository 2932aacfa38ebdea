#include <cstdio>
#include <lockstep/comm/coalescing.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <string>
#include <vector>

using namespace lockstep;

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);  // MPI_Init and MPI_Finalize, unless you call them
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  const int rank = group->rank(), size = group->size();
  if (size < 2) {
    std::puts("start at least 2 ranks: mpiexec -n 2 messages");
    group->close();
    return 2;
  }
  std::string said;
  const auto say = [&](const char* what, double value) {
    said += "rank " + std::to_string(rank) + " " + what + " " +
            std::to_string(static_cast<int>(value)) + "\n";
  };

  // Blocking: returns when the tensor may be used again.
  const auto data = Tensor::full({1}, rank == 0 ? 42.0 : 0.0);
  if (rank == 0) group->send(data, 1);
  if (rank == 1) {
    group->recv(data, 0);
    say("received", data.item());
  }

  // Immediate: the message travels while the rank computes; its tensor is off limits until wait().
  const auto later = Tensor::full({1}, rank == 0 ? 43.0 : 0.0);
  Work work;
  if (rank == 0) work = group->isend(later, 1);
  if (rank == 1) work = group->irecv(later, 0);
  work.wait();
  if (rank == 1) say("received", later.item());

  // Whoever comes first: rank 0 takes one message, with tag 7, from each of the others.
  const auto report = Tensor::full({1}, 10.0 * rank);
  if (rank == 0) {
    int senders = 0;
    double total = 0;
    for (int message = 1; message < size; ++message) {
      senders += group->recv(report, any_source, 7);  // tells who it was
      total += report.item();
    }
    say("heard from ranks that add up to", senders);
    say("heard numbers that add up to", total);
  } else {
    group->send(report, 0, 7);
  }

  // A ring: each rank sends to the next and receives from the one before. In a batch the order does
  // not matter; with blocking calls somebody would have to receive first.
  const auto mine = Tensor::full({1}, rank), before = Tensor::zeros({1});
  const std::vector<P2POp> ring = {
      {.kind = P2POp::Kind::isend, .tensor = mine, .peer = (rank + 1) % size},
      {.kind = P2POp::Kind::irecv, .tensor = before, .peer = (rank + size - 1) % size}};
  batch_isend_irecv(*group, ring).wait();
  say("is preceded by", before.item());

  for (const std::string& lines : gather_object(*group, said, 0)) std::printf("%s", lines.c_str());
  group->close();
}
