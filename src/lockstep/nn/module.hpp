#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep::nn {

class Partition;

/// A parameter with its full, dotted name ("conv1.weight"), as PyTorch names it.
struct NamedParameter {
  std::string name;
  Variable variable;
};

/// A part of a model: parameters, buffers and sub-modules registered by name, and a forward.
///   struct Net : nn::Module {
///     std::shared_ptr<nn::Linear> fc = register_module("fc", std::make_shared<nn::Linear>(784,
///     10)); Variable forward(const Variable& x) override { return
///     log_softmax(fc->forward(flatten(x, 1))); }
///   };
/// Not copyable: parameters have one owner.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// By default throws Error: for a module whose forward() does not take exactly one tensor.
  [[nodiscard]] virtual Variable forward(const Variable& x);
  /// forward(x), seen by this thread's ForwardHook: how containers call their parts.
  Variable operator()(const Variable& x);

  /// Parameters of this module and its sub-modules, in order of registration. A parameter with
  /// several names (a module registered twice, a parameter that two modules share) is listed once,
  /// under the first.
  [[nodiscard]] std::vector<NamedParameter> named_parameters() const;
  /// The parameters that require a gradient: for an optimizer of a model with frozen parts.
  [[nodiscard]] std::vector<NamedParameter> trained_parameters() const;
  [[nodiscard]] std::vector<Variable> parameters() const;
  /// Elements of all parameters, each counted once, and of this module's own parameters.
  [[nodiscard]] std::int64_t parameter_count() const;
  [[nodiscard]] std::int64_t own_parameter_count() const;

  /// Buffers of this module and its sub-modules, in order of registration, a module registered
  /// twice once; the tensors are the model's.
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> named_buffers() const;

  /// Parameters and buffers by PyTorch's names, shared ones by each of theirs; the tensors are the
  /// model's own memory.
  [[nodiscard]] StateDict state_dict() const;
  /// Copies into the model's tensors. Throws Error listing names or shapes that do not fit.
  void load_state_dict(const StateDict& state);

  /// Sets training mode (dropout is active) or evaluation mode, for this and all sub-modules.
  void train(bool on = true);
  void eval() { train(false); }
  [[nodiscard]] bool is_training() const noexcept { return training_; }

  /// True if forward communicates with other ranks, as BatchNorm's does in training when several
  /// ranks share a batch: a rank without samples must then run it too, on an empty batch.
  [[nodiscard]] virtual bool forward_is_collective() const;

  void zero_grad() const;

  /// Holds all parameters, of this and all sub-modules, in f32, bf16 or f16 from now on, without
  /// their gradients; buffers stay f32. Before an optimizer or DistributedDataParallel gets them.
  /// Throws ShapeError for another dtype: f64 models are made under a DTypeGuard.
  void to(DType dtype) const;
  /// Moves all parameters with their gradients, and all buffers, of this and all sub-modules, to a
  /// device. Before an optimizer or DistributedDataParallel gets them.
  void to(Device device) const;

  /// Freezes all parameters, of this and all sub-modules, or trains them again.
  void set_requires_grad(bool on) const;

  /// Keeps only `slab` of this module's own parameter `name`, the part that `placement` says, and
  /// drops its gradient: every handle to the parameter has the slab from now on. Before an
  /// optimizer or DistributedDataParallel gets it. Throws Error if there is no such parameter.
  void keep_slab(std::string_view name, const Tensor& slab, const Placement& placement);
  /// From now on the ranks of a group share out this module's computation (nn/partition.hpp). For
  /// layers that ask for partition(); parallelize_module calls it.
  void set_partition(std::shared_ptr<const Partition> partition) {
    partition_ = std::move(partition);
  }
  /// Null if every rank computes the whole module.
  [[nodiscard]] const Partition* partition() const noexcept { return partition_.get(); }

  /// Gives everything below this module the name that traces show, its dotted one.
  void name_layers() { name_layers(""); }
  /// "layer" until then.
  [[nodiscard]] const char* trace_name() const noexcept { return trace_name_; }

  /// Name and module of each direct child, in order of registration.
  [[nodiscard]] const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children()
      const {
    return children_;
  }

 protected:
  /// Registers `data` as a trainable parameter; throws Error if the name is taken. `placement` says
  /// which part of a parameter that ranks share out it is: state_dict() tells it.
  Variable register_parameter(std::string name, Tensor data, const Placement& placement = {});
  /// Registers a parameter that another module holds too (tied weights).
  Variable register_parameter(std::string name, const Variable& shared);
  /// Registers a tensor that is saved and broadcast but not trained.
  Tensor register_buffer(std::string name, Tensor data);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    add_child(std::move(name), module);
    return module;
  }

 private:
  friend class ModeGuard;
  void expect_new_name(const std::string& name) const;
  void add_child(std::string name, std::shared_ptr<Module> module);
  void name_layers(const std::string& prefix);
  using Visitor = std::function<void(const std::string& prefix, const Module&)>;
  /// This module and all below it, under each of their names.
  void visit(const std::string& prefix, const Visitor& f) const;
  /// The same, each module once, under its first name.
  void visit_once(const Visitor& f) const;

  struct OwnParameter {
    std::string name;
    Variable variable;
    Placement placement;
  };
  std::vector<OwnParameter> parameters_;
  std::vector<std::pair<std::string, Tensor>> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  std::shared_ptr<const Partition> partition_;
  bool training_ = true;
  const char* trace_name_ = "layer";
};

}  // namespace lockstep::nn
