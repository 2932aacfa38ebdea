#include <lockstep/train/task/model_gradients.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <lockstep/autograd/check_gradients.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

using Named = std::vector<std::pair<std::string, Variable>>;

Named parameters_of(const nn::Module& model) {
  Named all;
  for (auto& [name, variable] : model.trained_parameters()) all.emplace_back(name, variable);
  return all;
}

/// The task's model with the same numbers in either precision, on the same samples.
struct Setting {
  std::shared_ptr<nn::Module> model;
  Batch batch;
  std::uint64_t seed;

  Setting(const Task& task, std::uint64_t seed_of_model, const Batch& samples, DType dtype)
      : batch(samples.to(dtype)), seed(seed_of_model) {
    const nn::DTypeGuard guard(dtype);
    nn::manual_seed(seed);
    model = task.make_model();
    model->train();
  }

  [[nodiscard]] Variable loss(const Task& task) const {
    const nn::RandomContextGuard random({.seed = seed});  // dropout keeps the same elements
    return task.loss(task.forward(*model, batch), batch);
  }
};

Batch first_samples(const Dataset& data, std::int64_t samples) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min(samples, data.size())));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  Batch batch(data, static_cast<std::int64_t>(indices.size()));
  data.load(indices, batch);
  return batch;
}

std::vector<double> gradient_of(const Variable& variable) {
  if (!variable.grad().defined())
    return std::vector<double>(static_cast<std::size_t>(variable.data().numel()), 0.0);
  return variable.grad().to(DType::f64).to_vector<double>();
}

double norm(const std::vector<double>& v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

/// Fewer comparisons per parameter for models of many parameters: about 250 in all, at least two
/// each.
std::int64_t elements_for(std::size_t parameters) {
  return std::clamp<std::int64_t>(250 / static_cast<std::int64_t>(parameters), 2, 12);
}

}  // namespace

ModelGradients check_model_gradients(const Task& task, std::uint64_t seed, std::int64_t samples) {
  const Batch batch = first_samples(*task.data().train, samples);
  const Setting sharp(task, seed, batch, DType::f64), fast(task, seed, batch, DType::f32);
  const Named exact = parameters_of(*sharp.model), ours = parameters_of(*fast.model);
  const auto checks = check_gradients([&] { return sharp.loss(task); }, exact,
                                      {.elements = elements_for(exact.size()), .seed = seed});
  fast.model->zero_grad();
  fast.loss(task).backward();

  double largest = 0;  // root mean square of the parameter with the largest gradient
  for (const auto& [name, variable] : exact) {
    const auto n = static_cast<double>(std::max<std::int64_t>(1, variable.data().numel()));
    largest = std::max(largest, norm(gradient_of(variable)) / std::sqrt(n));
  }

  std::size_t width = 9;
  for (const auto& check : checks) width = std::max(width, check.name.size());
  ModelGradients result;
  result.table = fmt::format("{:<{}} {:>14} {:>14} {:>10}   {:>11}   {}\n", "parameter", width,
                             "backward", "difference", "allowed", "f32 to f64", "closest call at");
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const auto& check = checks[i];
    const auto reference = gradient_of(exact[i].second);
    auto error = gradient_of(ours[i].second);
    for (std::size_t k = 0; k < error.size(); ++k) error[k] -= reference[k];
    const double size = norm(reference), apart = norm(error);
    const double allowed =
        1e-3 * size + 1e-5 * largest * std::sqrt(static_cast<double>(reference.size()));
    const bool same = apart <= allowed;  // false for NaN
    result.ok = result.ok && check.ok() && same;
    result.table +=
        fmt::format("{:<{}} {:>14.6e} {:>14.6e} {:>10.1e}{:>2} {:>11.1e}{:>2} {}\n", check.name,
                    width, check.gradient, check.difference, check.allowed, check.ok() ? "" : " !",
                    size > 0 ? apart / size : apart, same ? "" : " !", check.where);
  }
  return result;
}

}  // namespace lockstep::train
