#include <lockstep/train/report/model_report.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include <lockstep/base/host.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/nn/describe.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/storage.hpp>
#include <lockstep/train/report/mesh_report.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task.hpp>
#include <lockstep/train/trainer.hpp>

namespace lockstep::train {
namespace {

std::int64_t bytes_of(const StateDict& state) {
  std::int64_t bytes = 0;
  for (const auto& entry : state) bytes += static_cast<std::int64_t>(entry.tensor.bytes());
  return bytes;
}

std::string table_of(const std::vector<nn::LayerDescription>& layers, std::int64_t parameters) {
  std::size_t name_width = 5, type_width = 4, shape_width = 12;
  for (const auto& layer : layers) {
    name_width = std::max(name_width, layer.name.size());
    type_width = std::max(type_width, layer.type.size());
    shape_width = std::max(shape_width, to_string(layer.output).size());
  }
  const auto line = [&](std::string_view name, std::string_view type, std::string_view output,
                        std::string_view parameters, std::string_view flops) {
    std::string row = fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>12}  {:>12}", name, name_width, type,
                                  type_width, output, shape_width, parameters, flops);
    row.erase(row.find_last_not_of(' ') + 1);
    return row + "\n";
  };
  std::string text = line("layer", "type", "output", "parameters", "MFLOP");
  std::int64_t flops = 0;
  for (const auto& layer : layers) {
    flops += layer.flops;
    text +=
        line(layer.name, layer.type, layer.is_seen ? to_string(layer.output) : "",
             layer.parameters > 0 ? std::to_string(layer.parameters) : "",
             layer.flops > 0 ? fmt::format("{:.3f}", static_cast<double>(layer.flops) / 1e6) : "");
  }
  return text + line("total", "", "", std::to_string(parameters),
                     fmt::format("{:.3f}", static_cast<double>(flops) / 1e6));
}

std::vector<nn::LayerDescription> layers_of(const Task& task, nn::Module& model, Device device) {
  const Dataset& data = *task.data().train;
  if (data.others().empty())
    return nn::describe_layers(model, data.sample_shape(), data.input_dtype());
  Batch zeros(data, 1, device);
  zeros.reset(std::array<std::int64_t, 1>{});
  return nn::describe_layers(model, [&] { return task.forward(model, zeros); });
}

int ranks_of(const std::vector<MeshDim>& mesh) {
  int ranks = 1;
  for (const MeshDim& dim : mesh) ranks *= dim.size;
  return ranks;
}

}  // namespace

std::string model_report(const Task& task, const RunPlan& plan, int ranks) {
  const std::vector<MeshDim> mesh = mesh_of(plan, ranks);
  Trainer::check(task, plan, ranks_of(mesh));
  const Device device = plan.device;
  RunPlan undivided = plan;
  undivided.mesh = {};
  undivided.train.zero = 0;
  Trainer trainer(std::make_shared<FakeGroup>(1, 0), task, undivided);
  std::string memory;
  const auto line = [&](const char* what, std::int64_t bytes) {
    memory += fmt::format("{:<34} {:10.2f} MiB\n", what, static_cast<double>(bytes) / (1 << 20));
  };
  const std::int64_t before = memory_stats(device).in_use;
  trainer.start_epoch(0);
  for (std::int64_t step = 0; step < std::min<std::int64_t>(2, trainer.steps_an_epoch()); ++step)
    static_cast<void>(trainer.step());
  const std::int64_t parameters = bytes_of(trainer.state_dict()),
                     slots = bytes_of(trainer.optimizer().state_dict());
  line("parameters and buffers", parameters);
  line("gradients", trainer.model().parameter_count() * std::int64_t{4});
  line("optimizer state", slots);
  line(fmt::format("activations of {} samples", plan.train.batch_size).c_str(),
       memory_stats(device).peak_in_use - before);
  const std::string where = device == Device{} ? "" : fmt::format(" on {}", to_string(device));
  line(fmt::format("together{}, at the peak of a step", where).c_str(),
       memory_stats(device).peak_in_use);
  line("the process at its peak", peak_resident_bytes());
  if (plan.checkpoint.async) line("more, once a checkpoint is saved", parameters + slots);

  // Measured now, since this forward needs memory too.
  const std::string of_mesh =
      ranks_of(mesh) > 1 ? "\nThe deck's mesh, planned:\n" + mesh_report(task, plan, mesh) : "";
  return fmt::format(
      "one sample {}; MFLOP: forward pass, two per multiply-add, matrix products and convolutions "
      "only; a training step takes about three times as many\n\n{}\n{}{}",
      to_string(task.data().train->sample_shape()),
      table_of(layers_of(task, trainer.model(), device), trainer.model().parameter_count()), memory,
      of_mesh);
}

}  // namespace lockstep::train
