#include <lockstep/nn/describe.hpp>

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <typeinfo>

#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/mode_guard.hpp>

namespace lockstep::nn {
namespace {

void name_modules(const std::string& prefix, const Module& module,
                  std::map<const Module*, std::string>& names) {
  names.emplace(&module, prefix);
  const std::string path = prefix.empty() ? "" : prefix + ".";
  for (const auto& [name, child] : module.children()) {
    std::string full = path;
    full += name;
    name_modules(full, *child, names);
  }
}

Shape without_batch(const Shape& shape) {
  return shape.dims() == 0 ? shape : Shape(std::span(shape.begin() + 1, shape.end()));
}

/// Records a layer on entry, so that layers stand in order of use.
class Recorder final : public ForwardHook {
 public:
  explicit Recorder(const Module& root) : root_(root) { name_modules("", root, names_); }

  void before(const Module& module, const Variable&) override {
    open_.push_back({layers_.size(), flops_.flops()});
    seen_.insert(&module);
    layers_.push_back(
        {names_[&module], class_name_of(module), {}, module.own_parameter_count(), 0});
    listed_.push_back(module.children().empty() || layers_.back().parameters > 0);
  }

  void after(const Module&, Variable& y) override {
    const Open open = open_.back();
    open_.pop_back();
    const std::int64_t all = flops_.flops() - open.flops_before;
    layers_[open.index].output = without_batch(y.shape());
    layers_[open.index].flops = all - open.flops_of_children;
    if (!open_.empty()) open_.back().flops_of_children += all;
  }

  [[nodiscard]] std::vector<LayerDescription> listed() {
    std::vector<LayerDescription> result;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (listed_[i] || layers_[i].flops > 0) result.push_back(layers_[i]);
    }
    add_unseen(root_, result);
    return result;
  }

 private:
  struct Open {
    std::size_t index;
    std::int64_t flops_before;
    std::int64_t flops_of_children = 0;
  };

  void add_unseen(const Module& module, std::vector<LayerDescription>& all) {
    const std::int64_t parameters = module.own_parameter_count();
    if (seen_.insert(&module).second && parameters > 0)
      all.push_back({names_[&module], class_name_of(module), {}, parameters, 0, false});
    for (const auto& [name, child] : module.children()) add_unseen(*child, all);
  }

  const Module& root_;
  FlopCounter flops_;
  std::set<const Module*> seen_;
  std::map<const Module*, std::string> names_;
  std::vector<LayerDescription> layers_;
  std::vector<bool> listed_;
  std::vector<Open> open_;
};

}  // namespace

std::string class_name_of(const Module& module) {
  const auto& type = typeid(module);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  const std::string name = text ? text.get() : type.name();
  const auto colons = name.rfind("::");
  const std::string last = colons == std::string::npos ? name : name.substr(colons + 2);
  // PyTorch's MaxPool3d is Lockstep's MaxPool<3>.
  const auto bracket = last.find('<');
  return last.ends_with("ul>") && bracket != std::string::npos
             ? last.substr(0, bracket) + last.substr(bracket + 1, 1) + "d"
             : last;
}

std::vector<LayerDescription> describe_layers(Module& model, const Shape& sample, DType dtype) {
  std::array<std::int64_t, Shape::max_dims> extents{1};
  std::copy(sample.begin(), sample.end(), extents.begin() + 1);
  const Shape batch(
      std::span<const std::int64_t>(extents).first(static_cast<std::size_t>(sample.dims()) + 1));
  const auto parameters = model.parameters();
  const Device device = parameters.empty() ? Device{} : parameters.front().data().device();
  return describe_layers(
      model, [&] { return model.forward(Variable(Tensor::zeros(batch, dtype, device))); });
}

std::vector<LayerDescription> describe_layers(Module& model,
                                              const std::function<Variable()>& forward) {
  const ModeGuard evaluating(model, false);
  const NoGradGuard no_grad;
  Recorder recorder(model);
  recorder.before(model, {});
  Variable y = forward();
  recorder.after(model, y);
  return recorder.listed();
}

}  // namespace lockstep::nn
