#include <cstdio>
#include <lockstep/lockstep.hpp>
#include <lockstep/parallel/replica_check.hpp>

using namespace lockstep;

/// Prints one line a rank, in rank order.
void print(ProcessGroup& group, const char* what, double value) {
  char line[80];
  std::snprintf(line, sizeof line, "rank %d  %-40s %g\n", group.rank(), what, value);
  for (const std::string& text : gather_object(group, std::string(line), 0))
    std::printf("%s", text.c_str());
}

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const std::shared_ptr<ProcessGroup> group = make_mpi_group(MPI_COMM_WORLD);
  const int rank = group->rank(), size = group->size();
  // One weight, and a model output of weight * x: the gradient of the output is x.
  const auto model = std::make_shared<nn::Linear>(1, 1, /*bias=*/false);
  const Variable weight = model->named_parameters()[0].variable;
  weight.data().fill(10 * (rank + 1));
  print(*group, "weight before construction", weight.data().item());

  DistributedDataParallel ddp(model, group);
  print(*group, "weight after construction", weight.data().item());

  optim::SGD sgd(model->named_parameters(), {.lr = 1});
  const Variable x(Tensor::full({1, 1}, rank + 1));  // 1 on rank 0, 2 on rank 1

  sum(model->forward(x)).backward();  // not through ddp: this rank's own gradient
  print(*group, "gradient of this rank alone", weight.grad().item());

  sgd.zero_grad();
  sum(ddp.forward(x)).backward();
  print(*group, "gradient after ddp.forward, backward", weight.grad().item());

  // Rank 0 has 3 samples of this batch, every other rank 1.
  const double samples = rank == 0 ? 3 : 1, all_samples = 3 + (size - 1);
  sgd.zero_grad();
  ddp.backward(sum(ddp.forward(x)), samples / all_samples);
  print(*group, "gradient, weighted by samples", weight.grad().item());

  sgd.zero_grad();
  {
    const auto local = ddp.no_sync();
    sum(ddp.forward(x)).backward();
  }
  print(*group, "gradient within no_sync", weight.grad().item());
  sum(ddp.forward(x)).backward();
  print(*group, "the next one sums both", weight.grad().item());

  sgd.step();
  print(*group, "weight after the step", weight.data().item());
  const bool equal = !ReplicaCheck(group, ddp.state_dict()).compare();
  print(*group, "replicas are equal", equal ? 1 : 0);
  group->close();
}
