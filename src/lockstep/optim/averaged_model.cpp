#include <lockstep/optim/averaged_model.hpp>

#include <fmt/format.h>

#include <list>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers/batch_norm.hpp>
#include <lockstep/nn/mode_guard.hpp>
#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep::optim {

AveragedModel::AveragedModel(const nn::Module& model, std::optional<double> ema_decay)
    : AveragedModel(model.named_parameters(), ema_decay) {}

AveragedModel::AveragedModel(std::vector<nn::NamedParameter> parameters,
                             std::optional<double> ema_decay)
    : parameters_(std::move(parameters)),
      decay_(ema_decay),
      n_averaged_(Tensor::zeros({}, DType::i64)) {
  if (decay_) expect_below_one("AveragedModel", "decay", *decay_);
  for (const auto& [name, variable] : parameters_) {
    if (is_half(variable.data().dtype())) {
      throw InputError(fmt::format(
          "AveragedModel: {} is {}, too coarse for a running average: small updates round to "
          "nothing. Keep the parameters in f32, and compute in 16 bits with Autocast.",
          name, name_of(variable.data().dtype())));
    }
    averages_.push_back(variable.data().clone());
  }
}

std::int64_t AveragedModel::n_averaged() const {
  return static_cast<std::int64_t>(n_averaged_.item());
}

void AveragedModel::update_parameters() {
  const auto before = static_cast<double>(n_averaged());
  const double mean = before / (before + 1.0);
  const double keep = before == 0.0 ? 0.0 : decay_.value_or(mean);
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const Tensor& value = parameters_[i].variable.data();
    if (keep == 0.0) {
      averages_[i].copy_from(value);
    } else {
      scale(averages_[i], keep);
      add_scaled(value, 1.0 - keep, averages_[i]);
    }
  }
  n_averaged_.fill(before + 1.0);
}

StateDict AveragedModel::state_dict() const {
  StateDict state;
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    state.insert(parameters_[i].name, averages_[i]);
  }
  state.insert("n_averaged", n_averaged_);
  return state;
}

Tensor AveragedModel::average_of(const Tensor& parameter) const {
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const Tensor value = parameters_[i].variable.data();
    // A piece without elements may have the address of the next one.
    if (value.data() == parameter.data() && value.numel() == parameter.numel()) return averages_[i];
  }
  return {};
}

void AveragedModel::swap() {
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const Tensor value = parameters_[i].variable.data();
    const Tensor kept = value.clone();
    value.copy_from(averages_[i]);
    averages_[i].copy_from(kept);
  }
}

namespace {

/// While alive, running statistics restart and are the means of all batches.
class MeanOfAll {
 public:
  explicit MeanOfAll(nn::BatchNorm& layer)
      : layer_(layer), momentum_(layer.set_momentum(std::nullopt)) {
    for (const auto& [name, statistic] : layer.named_buffers())
      before_.emplace_back(statistic, statistic.clone());
    layer.reset_running_stats();
  }
  ~MeanOfAll() { layer_.set_momentum(momentum_); }
  MeanOfAll(const MeanOfAll&) = delete;
  MeanOfAll& operator=(const MeanOfAll&) = delete;

  void restore() const {
    for (const auto& [statistic, before] : before_) statistic.copy_from(before);
  }

 private:
  nn::BatchNorm& layer_;
  std::optional<double> momentum_;
  std::vector<std::pair<Tensor, Tensor>> before_;
};

}  // namespace

void update_bn(nn::Module& model, const std::function<bool()>& forward_next) {
  std::list<MeanOfAll> means;
  for (nn::BatchNorm* layer : nn::batch_norms_of(model)) means.emplace_back(*layer);
  if (means.empty()) return;
  const nn::ModeGuard training(model, true);
  const NoGradGuard no_grad;
  try {
    while (forward_next()) continue;
  } catch (...) {
    for (const MeanOfAll& mean : means) mean.restore();
    throw;
  }
}

}  // namespace lockstep::optim
