#include <lockstep/train/report/mesh_report.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/comm/node_layout.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/parallel/mesh/mesh_plan.hpp>
#include <lockstep/parallel/tensor/plans.hpp>
#include <lockstep/train/run/rank_groups.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

/// Rows of words, each column as wide as its widest word; columns from `numbers` on to the right.
class Table {
 public:
  explicit Table(std::size_t numbers) : numbers_(numbers) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] std::string text() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    }
    std::string all;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t c = 0; c < row.size(); ++c) {
        line += c < numbers_ ? fmt::format("{:<{}}  ", row[c], widths[c])
                             : fmt::format("{:>{}}  ", row[c], widths[c]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      all += line + "\n";
    }
    return all;
  }

 private:
  std::size_t numbers_;
  std::vector<std::vector<std::string>> rows_;
};

/// Bytes of the optimizer's state for an element: measured on a small parameter, since the model's
/// would take memory. Counts of steps and the like are not the elements' own.
double optimizer_bytes_of(const RunPlan& plan) {
  constexpr std::int64_t elements = 64;
  const auto optimizer = optim::make_optimizer(
      optim::with_patterns(plan.optimizer, [](const std::string&) { return false; }),
      {{"weight", Variable(Tensor::zeros({8, elements / 8}), true)}});
  std::size_t bytes = 0;
  for (const auto& entry : optimizer->state_dict()) {
    if (entry.tensor.numel() % elements == 0) bytes += entry.tensor.bytes();
  }
  return static_cast<double>(bytes) / static_cast<double>(elements);
}

std::string groups_of(const MeshPlan& plan, int ranks_per_node) {
  int ranks = 1;
  for (const MeshDim& dim : plan.dims) ranks *= dim.size;
  std::vector<std::string> hosts;
  for (int r = 0; r < ranks; ++r)
    hosts.push_back(std::to_string(ranks_per_node > 0 ? r / ranks_per_node : 0));
  const NodeLayout nodes(hosts);
  DeviceMesh mesh(std::make_shared<FakeGroup>(ranks, 0), plan.dims, nodes);
  Table table(4);
  table.add({"dimension", "ranks", "those of rank 0", ranks_per_node > 0 ? "link" : ""});
  for (const MeshDim& dim : plan.dims) {
    if (dim.size == 1) continue;
    const std::vector<int> members = mesh.group(dim.name)->ranks();
    const std::size_t shown = std::min<std::size_t>(members.size(), 4);
    std::string list = fmt::format(
        "{}{}",
        fmt::join(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(shown), " "),
        shown < members.size() ? fmt::format(" ... {}", members.back()) : "");
    const bool on_a_node = std::ranges::all_of(
        members, [&](int r) { return nodes.node_of(r) == nodes.node_of(members.front()); });
    const char* link = ranks_per_node == 0 ? "" : on_a_node ? "within a node" : "between nodes";
    table.add({dim.name, std::to_string(dim.size), list, link});
  }
  return fmt::format("mesh {}: {} ranks\n{}", to_string(plan.dims), ranks, table.text());
}

/// "h.3.ln_1.weight" as "h.*.ln_1.weight".
std::string without_numbers(const std::string& name) {
  std::string result;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    result += (result.empty() ? "" : ".") + (number ? "*" : part);
    begin = end + 1;
  }
  return result;
}

std::string parameters_of(const MeshPlan& plan) {
  struct Line {
    std::string name;
    Shape shape, of_rank;
    std::set<int> stages;
    std::size_t count = 0;
  };
  std::vector<Line> lines;
  std::map<std::string, std::size_t> place;  // of a name and its shapes
  for (const PlannedParameter& p : plan.parameters) {
    const std::string name = without_numbers(p.name);
    const auto [at, is_new] =
        place.try_emplace(name + to_string(p.shape) + to_string(p.of_rank), lines.size());
    if (is_new) lines.push_back({name, p.shape, p.of_rank, {}, 0});
    Line& line = lines[at->second];
    line.stages.insert(p.stages.begin(), p.stages.end());
    ++line.count;
  }
  const bool has_stages = plan.dims.front().size > 1;
  Table table(4);
  table.add({"parameter", "shape", "on a rank of tp", has_stages ? "stages" : "", "of them"});
  for (const Line& line : lines) {
    std::string cut = "whole";
    if (line.of_rank != line.shape)
      cut = to_string(line.of_rank) + (line.of_rank[0] != line.shape[0] ? " rows" : " columns");
    table.add({line.name, to_string(line.shape), cut,
               has_stages ? fmt::format("{}", fmt::join(line.stages, " ")) : "",
               std::to_string(line.count)});
  }
  return table.text() +
         fmt::format("{} elements on the rank that holds most, before ZeRO\n", plan.elements);
}

std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20));
}

std::string memory_of(const MeshPlan& plan) {
  Table table(1);
  table.add({"memory of a rank, MiB", "no ZeRO", "ZeRO-1", "ZeRO-2", "ZeRO-3"});
  const auto row = [&](const char* what, const auto& bytes) {
    std::vector<std::string> words{what};
    for (const MeshMemory& memory : plan.memory) words.push_back(mebibytes(bytes(memory)));
    table.add(std::move(words));
  };
  row("parameters", [](const MeshMemory& m) { return m.parameters; });
  row("gradients", [](const MeshMemory& m) { return m.gradients; });
  row("optimizer state", [](const MeshMemory& m) { return m.optimizer_state; });
  row("gathered at a time", [](const MeshMemory& m) { return m.gathered; });
  row("together, without activations", [](const MeshMemory& m) { return m.total(); });
  return table.text();
}

std::string traffic_of(const MeshPlan& plan) {
  std::vector<std::pair<std::string, std::string>> kinds;
  for (const auto& traffic : plan.traffic) {
    for (const MeshTraffic& each : traffic) {
      if (std::ranges::find(kinds, std::pair(each.dim, each.what)) == kinds.end())
        kinds.emplace_back(each.dim, each.what);
    }
  }
  std::ranges::stable_sort(kinds, {}, &std::pair<std::string, std::string>::first);
  Table table(2);
  table.add(
      {"dimension", "sent by a rank in a step, MiB", "no ZeRO", "ZeRO-1", "ZeRO-2", "ZeRO-3"});
  for (const auto& kind : kinds) {
    std::vector<std::string> words{kind.first, kind.second};
    for (const auto& traffic : plan.traffic) {
      const auto at = std::ranges::find_if(
          traffic, [&](const MeshTraffic& t) { return std::pair(t.dim, t.what) == kind; });
      words.push_back(at == traffic.end() ? "-" : mebibytes(at->bytes));
    }
    table.add(std::move(words));
  }
  return table.text();
}

}  // namespace

std::vector<MeshDim> mesh_of(const RunPlan& plan, int ranks) {
  std::vector<MeshDim> dims = dims_of(plan.mesh);
  if (ranks > 0) return fit_mesh(std::move(dims), ranks);
  validate(dims);
  for (MeshDim& dim : dims) dim.size = std::max(dim.size, 1);
  return dims;
}

std::string mesh_report(const Task& task, const RunPlan& plan, const std::vector<MeshDim>& mesh,
                        int ranks_per_node) {
  if (ranks_per_node < 0) {
    throw InputError(fmt::format("a node has 1 rank or more, not {}.", ranks_per_node));
  }
  nn::manual_seed(plan.train.seed);
  const auto model = task.make_model();
  const auto tp = std::ranges::find(mesh, "tp", &MeshDim::name);
  std::shared_ptr<nn::Module> divided;
  if (tp != mesh.end() && tp->size > 1 && !dynamic_cast<const nn::Gpt*>(model.get())) {
    divided = task.make_model();
    tensor_parallelize(*divided, std::make_shared<FakeGroup>(tp->size, 0));
  }
  const MeshPlan found =
      plan_mesh(*model, {.dims = mesh,
                         .samples = plan.train.batch_size,
                         .precision = plan.train.precision,
                         .tokens = std::max<std::int64_t>(task.tokens_a_sample(), 1),
                         .optimizer_bytes = optimizer_bytes_of(plan),
                         .of_tp_rank = divided.get()});
  const auto zero = static_cast<std::size_t>(plan.train.zero);
  return groups_of(found, ranks_per_node) + "\n" + parameters_of(found) + "\n" + memory_of(found) +
         fmt::format("with the deck's train.zero = {} together {} MiB, without activations\n", zero,
                     mebibytes(found.memory.at(zero).total())) +
         "\n" + traffic_of(found);
}

}  // namespace lockstep::train
