#include <lockstep/parallel/pipeline/split.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep {

std::vector<std::size_t> balanced_stages(ListView<double> costs, int stages) {
  const std::size_t layers = costs.size();
  if (stages < 1 || layers < static_cast<std::size_t>(stages)) {
    throw InputError("a pipeline of " + std::to_string(stages) + " stages cannot be made of " +
                     std::to_string(layers) + " layers: at least one stage, and a layer for each.");
  }
  std::vector<double> sums{0.0};  // of the layers before
  for (const double cost : costs) {
    if (!(cost >= 0.0)) throw InputError("the cost of a pipeline's layer must be at least 0.");
    sums.push_back(sums.back() + cost);
  }
  // largest[s][i]: of the best cut of the first i layers into s stages, whose last begins at
  // begin[s][i].
  const auto count = static_cast<std::size_t>(stages);
  constexpr double impossible = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> largest(count + 1, std::vector<double>(layers + 1, impossible));
  std::vector<std::vector<std::size_t>> begin(count + 1, std::vector<std::size_t>(layers + 1, 0));
  largest[0][0] = 0.0;
  for (std::size_t s = 1; s <= count; ++s) {
    for (std::size_t i = s; i <= layers; ++i) {
      for (std::size_t j = s - 1; j < i; ++j) {
        const double worst = std::max(largest[s - 1][j], sums[i] - sums[j]);
        if (worst > largest[s][i] || worst == impossible) continue;
        largest[s][i] = worst;  // the last of equals: layers without cost stay in front
        begin[s][i] = j;
      }
    }
  }
  std::vector<std::size_t> first(count);
  for (std::size_t s = count, end = layers; s > 0; --s) end = first[s - 1] = begin[s][end];
  return first;
}

std::vector<std::shared_ptr<nn::Sequential>> split_into_stages(const nn::Module& model,
                                                               ListView<std::size_t> first) {
  const auto& layers = model.children();
  const bool rises = std::ranges::adjacent_find(first, std::greater_equal<>()) == first.end();
  if (first.empty() || first[0] != 0 || !rises || first.back() >= layers.size()) {
    std::string numbers;
    for (const std::size_t layer : first) numbers += " " + std::to_string(layer);
    throw InputError("the first layers of a pipeline's stages are" + numbers +
                     "; they must begin with 0 and rise, below the number of layers, " +
                     std::to_string(layers.size()) + ".");
  }
  std::vector<std::shared_ptr<nn::Sequential>> stages;
  for (std::size_t s = 0; s < first.size(); ++s) {
    stages.push_back(std::make_shared<nn::Sequential>());
    const std::size_t end = s + 1 < first.size() ? first[s + 1] : layers.size();
    for (std::size_t i = first[s]; i < end; ++i)
      stages.back()->push_back(layers[i].first, layers[i].second);
  }
  return stages;
}

std::vector<std::shared_ptr<nn::Sequential>> split_into_stages(const nn::Module& model,
                                                               int stages) {
  std::vector<double> costs;
  for (const auto& [name, layer] : model.children())
    costs.push_back(static_cast<double>(layer->parameter_count()));
  return split_into_stages(model, balanced_stages(costs, stages));
}

}  // namespace lockstep
