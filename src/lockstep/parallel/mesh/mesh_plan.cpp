#include <lockstep/parallel/mesh/mesh_plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/parallel/sharded/unit_modules.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t element_bytes = 4;  // of activations
constexpr std::int64_t most_ranks = std::int64_t{1} << 20;

std::int64_t share(std::int64_t n, std::int64_t ranks) { return (n + ranks - 1) / ranks; }

/// Elements that a rank of a ring of `ranks` sends to gather, or to sum and scatter, `elements`.
std::int64_t ring(std::int64_t elements, std::int64_t ranks) {
  return (ranks - 1) * share(elements, ranks);
}

struct Sizes {
  std::int64_t pp = 1, dp = 1, fsdp = 1, cp = 1, tp = 1;

  [[nodiscard]] std::array<std::int64_t*, 5> in_order() { return {&pp, &dp, &fsdp, &cp, &tp}; }
  /// Ranks with different samples.
  [[nodiscard]] std::int64_t data() const { return dp * fsdp; }
  [[nodiscard]] std::int64_t shards() const { return (fsdp > 1 ? fsdp : dp) * cp; }
  [[nodiscard]] std::int64_t replicas() const { return fsdp > 1 ? dp : 1; }
};

Sizes sizes_of(const std::vector<MeshDim>& dims) {
  validate(dims);
  Sizes sizes;
  for (const MeshDim& dim : dims) {
    const auto* const at = std::find(mesh_dim_names.begin(), mesh_dim_names.end(), dim.name);
    if (at == mesh_dim_names.end()) {
      throw InputError(fmt::format("mesh: there is no dimension '{}'; there are {}.", dim.name,
                                   fmt::join(mesh_dim_names, ", ")));
    }
    if (dim.size < 1) {
      throw InputError(fmt::format("mesh: {} is {}; a plan needs its size.", dim.name, dim.size));
    }
    *sizes.in_order()[static_cast<std::size_t>(at - mesh_dim_names.begin())] = dim.size;
  }
  return sizes;
}

void expect_enough(const char* dims, std::int64_t ranks, const char* what, std::int64_t n) {
  if (ranks <= n) return;
  throw InputError(
      fmt::format("mesh: {} is {}, but there are only {} {} to share out.", dims, ranks, n, what));
}

/// Runs of `n` blocks over the stages: the stage of block `block`.
int stage_of(std::int64_t block, std::int64_t n, std::int64_t stages) {
  const std::int64_t each = n / stages, longer = n % stages;
  const std::int64_t of_longer = longer * (each + 1);
  return static_cast<int>(block < of_longer ? block / (each + 1)
                                            : longer + (block - of_longer) / each);
}

/// Parameter `name` of a Gpt on the first rank of tp.
Shape gpt_shape(const std::string& name, const Shape& whole, const nn::GptOptions& gpt,
                std::int64_t tp) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const std::int64_t head = gpt.width / gpt.heads;
  const std::int64_t attention = share(gpt.heads, tp) * head, features = share(4 * gpt.width, tp);
  if (has("attn.c_attn.")) return whole.with_leading(3 * attention);
  if (has("mlp.c_fc.")) return whole.with_leading(features);
  if (has("attn.c_proj.weight")) return {whole[0], attention};
  if (has("mlp.c_proj.weight")) return {whole[0], features};
  if (name == "wte.weight") return whole.with_leading(share(gpt.vocabulary, tp));
  return whole;
}

std::vector<int> gpt_stages(const std::string& name, const nn::GptOptions& gpt, std::int64_t pp) {
  const int last = static_cast<int>(pp) - 1;
  if (name.starts_with("h.")) {
    return {stage_of(std::stoll(name.substr(2)), gpt.depth, pp)};
  }
  if (name.starts_with("ln_f.")) return {last};
  if (name == "wte.weight" && last > 0) return {0, last};
  return {0};
}

/// Elements on the stage that holds most; those that it has gathered at a time, by unit.
struct Elements {
  std::int64_t all = 0, at_a_time = 0;
};

Elements most_elements(const nn::Module& model, const std::vector<PlannedParameter>& parameters,
                       std::int64_t pp) {
  const std::vector<UnitModule> units = unit_modules(model, {});
  std::map<std::string, std::size_t> unit_of;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const auto& run : units[u].runs) {
      for (const auto& parameter : run) unit_of[parameter.name] = u;
    }
  }
  Elements most;
  for (int stage = 0; stage < pp; ++stage) {
    Elements here;
    std::vector<std::int64_t> of_unit(units.size());
    for (const PlannedParameter& p : parameters) {
      if (std::ranges::find(p.stages, stage) == p.stages.end()) continue;
      here.all += p.of_rank.numel();
      of_unit[unit_of.at(p.name)] += p.of_rank.numel();
    }
    const std::int64_t root = std::exchange(of_unit.front(), 0);
    const auto others = std::ranges::count_if(of_unit, [](std::int64_t n) { return n > 0; });
    here.at_a_time = root + std::min<std::int64_t>(2, others) * *std::ranges::max_element(of_unit);
    if (here.all > most.all) most = here;
  }
  return most;
}

/// Parameter `name` of a model on the first rank of tp, as divided there.
Shape divided_shape(const std::string& name, const nn::Module& of_tp_rank, const Shape& whole) {
  for (const auto& parameter : of_tp_rank.named_parameters()) {
    if (parameter.name == name) return parameter.variable.shape();
  }
  return whole;
}

/// The names of dimensions that are more than one rank, as of DeviceMesh::flatten.
std::string flat_name(const std::vector<std::pair<const char*, std::int64_t>>& dims) {
  std::string name;
  for (const auto& [dim, size] : dims) {
    if (size > 1) name += (name.empty() ? "" : "_") + std::string(dim);
  }
  return name;
}

/// Traffic among ranks that hold the same parameters.
void add_data_traffic(const Sizes& sizes, std::int64_t elements, std::int64_t bytes, int zero,
                      std::vector<MeshTraffic>& traffic) {
  const std::int64_t shards = sizes.shards(), replicas = sizes.replicas();
  const auto add = [&](const std::string& dim, const char* what, std::int64_t sent) {
    if (sent > 0) traffic.push_back({dim, what, sent * bytes});
  };
  const std::string dim = sizes.fsdp > 1 ? flat_name({{"fsdp", sizes.fsdp}, {"cp", sizes.cp}})
                                         : flat_name({{"dp", sizes.dp}, {"cp", sizes.cp}});
  if (zero < 2) {
    add(flat_name({{"dp", sizes.dp}, {"fsdp", sizes.fsdp}, {"cp", sizes.cp}}),
        "gradients: all_reduce", 2 * ring(elements, sizes.data() * sizes.cp));
  } else {
    add(dim, "gradients: reduce_scatter", ring(elements, shards));
    add("dp", "gradients of shards: all_reduce", 2 * ring(share(elements, shards), replicas));
  }
  if (zero > 0) add(dim, "parameters: all_gather", (zero == 3 ? 2 : 1) * ring(elements, shards));
}

/// Traffic among ranks that share out one Gpt.
void add_gpt_traffic(const Sizes& sizes, const nn::GptOptions& gpt, const MeshPlanOptions& options,
                     std::vector<MeshTraffic>& traffic) {
  const std::int64_t rows = share(options.samples, sizes.data()) * share(options.tokens, sizes.cp);
  const std::int64_t activations = rows * gpt.width, blocks = share(gpt.depth, sizes.pp);
  const auto add = [&](const char* dim, const char* what, std::int64_t sent) {
    traffic.push_back({dim, what, sent * element_bytes});
  };
  if (sizes.pp > 1) {
    add("pp", "activations and their gradients", (sizes.pp > 2 ? 2 : 1) * activations);
    add("pp", "gradient of tied wte: all_reduce",
        2 * ring(share(gpt.vocabulary, sizes.tp) * gpt.width, 2));
  }
  if (sizes.cp > 1) {
    const std::int64_t head = gpt.width / gpt.heads;
    const std::int64_t keys_values = 2 * rows * share(gpt.heads, sizes.tp) * head;
    const std::int64_t key_bytes = options.precision == Precision::f32 ? element_bytes : 2;
    traffic.push_back(
        {"cp", "keys and values, with gradients",
         blocks * keys_values * ((2 * sizes.cp - 2) * key_bytes + sizes.cp * element_bytes)});
  }
  if (sizes.tp > 1) {
    // The first stage has the embedding's sum, the last one that of the logits' input.
    const std::int64_t ends = sizes.pp == 1 ? 2 : 1;
    add("tp", "activations: all_reduce", (4 * blocks + ends) * 2 * ring(activations, sizes.tp));
    add("tp", "loss: all_reduce", 2 * ring(4 * rows, sizes.tp));
  }
}

}  // namespace

MeshPlan plan_mesh(const nn::Module& model, const MeshPlanOptions& options) {
  Sizes sizes = sizes_of(options.dims);
  std::int64_t ranks = 1;
  for (const std::int64_t* const size : sizes.in_order()) {
    ranks *= *size;
    if (ranks > most_ranks) {
      throw InputError(
          fmt::format("mesh: {} has more than {} ranks.", to_string(options.dims), most_ranks));
    }
  }
  expect_enough("dp x fsdp", sizes.data(), "samples of a step", options.samples);
  expect_enough("cp", sizes.cp, "tokens of a sample", options.tokens);
  const auto* const gpt = dynamic_cast<const nn::Gpt*>(&model);
  const nn::Module* const divided = gpt || sizes.tp == 1 ? nullptr : options.of_tp_rank;
  if (gpt == nullptr && sizes.cp * sizes.pp * (divided ? 1 : sizes.tp) > 1) {
    throw InputError(
        "mesh: cp and pp are planned for model.kind = \"gpt\" alone, and tp for models with a "
        "ready plan. Use dp and fsdp.");
  }
  if (gpt != nullptr) {
    expect_enough("tp", sizes.tp, "heads", gpt->options().heads);
    expect_enough("pp", sizes.pp, "blocks", gpt->options().depth);
  }

  MeshPlan plan;
  for (std::size_t i = 0; i < mesh_dim_names.size(); ++i) {
    plan.dims.push_back({std::string(mesh_dim_names[i]), static_cast<int>(*sizes.in_order()[i])});
  }
  std::int64_t bytes = element_bytes;
  for (const auto& [name, variable] : model.named_parameters()) {
    const Shape& whole = variable.shape();
    bytes = static_cast<std::int64_t>(size_of(variable.data().dtype()));
    plan.parameters.push_back(
        {name, whole,
         gpt       ? gpt_shape(name, whole, gpt->options(), sizes.tp)
         : divided ? divided_shape(name, *divided, whole)
                   : whole,
         gpt ? gpt_stages(name, gpt->options(), sizes.pp) : std::vector<int>{0}});
  }
  const Elements elements = most_elements(model, plan.parameters, sizes.pp);
  plan.elements = elements.all;
  const std::int64_t shard = share(plan.elements, sizes.shards());
  for (int zero = 0; zero < 4; ++zero) {
    const auto kept = [&](int from) { return zero >= from ? shard : plan.elements; };
    const std::int64_t gradient_bytes = std::max<std::int64_t>(bytes, 4);  // of 16 bits: f32
    const std::array<std::int64_t, 4> gathered{0, shard, plan.elements, elements.at_a_time};
    plan.memory[static_cast<std::size_t>(zero)] = {
        .parameters = kept(2) * bytes,
        .gradients = kept(2) * gradient_bytes,
        .optimizer_state = static_cast<std::int64_t>(
            std::ceil(static_cast<double>(kept(1)) * options.optimizer_bytes)),
        .gathered = gathered[static_cast<std::size_t>(zero)] * bytes +
                    (zero < 2 ? 0 : elements.at_a_time * gradient_bytes)};
    auto& traffic = plan.traffic[static_cast<std::size_t>(zero)];
    add_data_traffic(sizes, plan.elements, gradient_bytes, zero, traffic);
    if (gpt) add_gpt_traffic(sizes, gpt->options(), options, traffic);
  }
  return plan;
}

std::vector<MeshDim> parse_mesh(std::string_view text) {
  std::vector<MeshDim> dims;
  const auto refuse = [&] {
    throw InputError(
        fmt::format("mesh: '{}' is not a list of dimensions with sizes, as in dp=2,tp=4.", text));
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) refuse();
    const std::string_view number = item.substr(equals + 1);
    int size = 0;
    const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), size);
    if (error != std::errc() || rest != number.data() + number.size()) refuse();
    dims.push_back({std::string(item.substr(0, equals)), size});
    begin = end + 1;
  }
  return dims;
}

}  // namespace lockstep
