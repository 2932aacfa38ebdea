#include <cstdio>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <memory>
#include <mutex>
#include <string>

using namespace lockstep;

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i)
    sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

class Counter {
 public:
  int add(int n) {
    const std::lock_guard lock(mutex_);  // calls come from several ranks at once
    return count_ += n;
  }

 private:
  std::mutex mutex_;
  int count_ = 0;
};
std::unique_ptr<Counter> make_counter() { return std::make_unique<Counter>(); }

LOCKSTEP_RPC(dot);
LOCKSTEP_RPC(make_counter);
LOCKSTEP_RPC(Counter::add);

int main(int argc, char** argv) {
  const MpiSession session(argc, argv);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  if (group->size() < 2) {
    std::puts("start at least 2 ranks: mpiexec -n 2 remote_calls");
    group->close();
    return 2;
  }
  rpc::init("worker" + std::to_string(group->rank()), *group);
  if (group->rank() == 0) {
    const auto ones = Tensor::full({1000}, 1.0), twos = Tensor::full({1000}, 2.0);
    std::printf("dot on worker1: %g\n", rpc::rpc_sync("worker1", dot, ones, twos));
    auto later = rpc::rpc_async("worker1", dot, twos, twos);  // meanwhile, something else
    std::printf("and later: %g\n", later.wait());

    const auto counter = rpc::remote("worker1", make_counter);  // the object stays there
    counter.rpc_sync(&Counter::add, 3);
    std::printf("counted: %d\n", counter.rpc_sync(&Counter::add, 4));
  }
  rpc::shutdown();  // collective: waits until no call is left anywhere
  group->close();
}
