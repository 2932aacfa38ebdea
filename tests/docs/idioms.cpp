#include <chrono>
#include <lockstep/checkpoint/weights/weights.hpp>
#include <lockstep/comm/node_layout.hpp>
#include <lockstep/lockstep.hpp>
#include <lockstep/rpc/dist_autograd.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <lockstep/tensor/stream.hpp>

// Calls that docs/tutorials/13_from_pytorch.md and 14_on_gpus.md show beside PyTorch's. Compiled
// and never run; tutorials_test.cpp looks for each of them here.

namespace lockstep::test {

inline Tensor f(const Tensor& t) { return t; }
LOCKSTEP_RPC(f);

struct Net : nn::Module {
  std::shared_ptr<nn::Linear> fc;
  Net() { fc = register_module("fc", std::make_shared<nn::Linear>(784, 10)); }
};

void groups(const std::function<void(ProcessGroup&)>& body) {
  const auto world = make_mpi_group(MPI_COMM_WORLD);
  const auto group = make_mpi_group(MPI_COMM_WORLD, {.timeout = std::chrono::minutes(2)});
  const int rank = group->rank(), size = group->size();
  const NodeLayout nodes = node_layout(*group);
  static_cast<void>(nodes.local_rank(rank) + nodes.node_of(rank) + size);
  run_ranks_as_threads(4, body);
  group->close();
}

void tensors(const std::vector<float>& vector, const Variable& x, const Variable& y) {
  set_math_threads(1);
  const Tensor zeros = Tensor::zeros({2, 3}, DType::f64), t = Tensor::from(vector);
  const auto elements = t.to_vector<float>();
  const Tensor others[] = {t.reshape({-1, 8}), t.slice(3, 7), t.clone(), x.data(), x.grad()};
  static_cast<void>(x.item());
  const NoGradGuard no_grad;
  const Variable derivative = grad(y, x, {.create_graph = true});
  const Autocast autocast(Precision::bf16);
  nn::manual_seed(1);
}

void training(std::shared_ptr<nn::Module> model, const std::shared_ptr<ProcessGroup>& group,
              std::shared_ptr<const Dataset> dataset, std::unique_ptr<BatchSource> batches,
              const Variable& x, const Tensor& target, const char* path) {
  const Variable output = model->forward(x), loss = cross_entropy(output, target);
  model->train();
  model->eval();
  auto optimizer = optim::SGD(model->named_parameters(), {.lr = 0.1});
  optim::clip_grad_norm(optimizer.parameters(), 1.0);
  optimizer.step();
  optim::GradScaler scaler;
  DistributedDataParallel ddp(model, group);
  const auto local = ddp.no_sync();
  ddp.backward(loss, 0.5);
  Join join({ddp});
  convert_sync_batchnorm(*model, *group);

  const std::int64_t e = 0, prefetch = 2;
  Batch batch(*dataset, 8);
  const std::vector<std::int64_t> indices{1, 2};
  dataset->load(indices, batch);
  auto loader = Loader(dataset, std::move(batches), prefetch);
  loader.start_epoch(e);

  CheckpointContents contents = load_checkpoint(*group, path);
  static_cast<void>(CheckpointWriter().save(*group, path, contents));
  model->load_state_dict(contents.model);
  model->load_state_dict(read_weights(path).model);
}

void samples(const Tensor& x, const Tensor& y, std::int64_t classes) {
  const auto pairs = TensorDataset(x, y, classes, "name");
  static_cast<void>(pairs.size());
}

void communication(const std::shared_ptr<ProcessGroup>& group, const Tensor& t,
                   const Tensor& output, const std::string& object) {
  group->all_reduce(t, ReduceOp::sum).wait();
  Work work = group->all_reduce(t, ReduceOp::sum);
  work = group->all_gather(t, output);
  work = group->all_to_all(t, output);
  const std::string everywhere = broadcast_object(*group, object, 0);
  const auto pair = group->new_group({0, 1});
  group->barrier();

  const Tensor& x = t;
  rpc::init("worker0", *group);
  const Tensor answer = rpc::rpc_sync("worker1", f, x);
  const dist_autograd::Context context;
}

void devices(Tensor x, DeviceType type) {
  const Device device{DeviceType::cuda, 0};
  const Tensor there[] = {x.to(device), x.to(device, true), x.pin_memory(type).to(device, true)};
  const Stream s = Stream::from_pool(device);
  x.record_stream(s);
  current_stream(device).synchronize();
  static_cast<void>(memory_stats(device));
}

}  // namespace lockstep::test
