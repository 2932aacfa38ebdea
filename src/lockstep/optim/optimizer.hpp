#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/optim/parameter_group.hpp>
#include <lockstep/tensor/state_dict.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep {
class DeviceGraph;
}

namespace lockstep::optim {

class CapturedRule;

/// Moves parameters along their gradients. The parameters are the model's own: copies of a Variable
/// share value and gradient. A parameter without a gradient since the last zero_grad() is skipped,
/// as in PyTorch. For a bf16 or f16 parameter the optimizer keeps an f32 copy from construction on,
/// updates the copy, and rounds the parameter from it: updates that are lost in one rounding add
/// up. One thread at a time.
class Optimizer {
 public:
  /// The numbers that control a step; they may be on the parameters' device: then kernels read
  /// them, and the host does not wait.
  struct StepTensors {
    Tensor gradient_factor;  ///< f64 [1]; undefined: 1
    /// f32 [1]: not 0 leaves parameters, state and counts of steps as they are; undefined: 0
    Tensor found_inf;
  };

  /// The unit that one kernel updates: a parameter, or the flat memory of several parameters that
  /// are contiguous, together with their gradients and state, and share all numbers.
  struct Run {
    Tensor parameter, gradient;
    std::vector<Tensor> slots;  ///< in the order of Setup::slots
    double lr = 0.0, weight_decay = 0.0, gradient_factor = 1.0;
    /// If not null: holds gradient_factor, and whether the step is skipped. Only for an optimizer
    /// that reads them (Setup::reads_step_tensors).
    const StepTensors* tensors = nullptr;
    CapturedRule* captured = nullptr;  ///< not null: of a captured step (is_capturable())
    std::int64_t step = 0;             ///< this update's number, from 1; 0 without state
    std::size_t first = 0;             ///< index of the first parameter in parameters()
    std::size_t group = 0;  ///< index of the parameters' group; the number of groups for none
  };

  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update of every parameter that has a gradient, as if all gradients were multiplied by
  /// `gradient_factor`, e.g. clip_factor; this costs no pass over them. They stay as they are.
  /// Allocates nothing.
  void step(double gradient_factor = 1.0);
  /// The same by numbers on the device. Whether the step was left out the host reads at the next
  /// one, or for state_dict(). A user-defined optimizer that does not read them (Setup) waits.
  ///
  /// While a DeviceGraph is captured, either step() records the update and neither runs nor counts
  /// it. Each replay counts one, and takes the learning rate and other options of that time;
  /// gradient_factor as a number stays that of the capture. The optimizer must then outlive the
  /// graph. Throws Error unless is_capturable().
  void step(const StepTensors& tensors);

  /// Forgets the gradients; their memory is overwritten by the next backward.
  void zero_grad() const;

  /// The learning rate of the next step of parameters in no group; schedules set it.
  [[nodiscard]] double lr() const noexcept { return groups_.back().lr; }
  /// The learning rate from construction: the base rate of schedules.
  [[nodiscard]] double initial_lr() const noexcept { return groups_.back().initial_lr; }
  /// The rate of the group of this index, in the order in which groups were given.
  [[nodiscard]] double group_lr(std::size_t group) const { return groups_.at(group).lr; }
  /// Each group's rate changes in proportion. Throws InputError if negative or not finite.
  void set_lr(double lr);
  /// The same, and then each group's rate becomes `f` of its value: a schedule uses it to act on
  /// each group's own base rate.
  void set_lr(double lr, const std::function<double(double)>& f);

  /// The share of the running mean of gradients that the next step keeps: SGD's and LARS's
  /// momentum, Adam's and LAMB's beta1. The momentum that one-cycle schedules change. 0: no
  /// momentum.
  [[nodiscard]] virtual double momentum() const noexcept = 0;
  /// Throws InputError if the optimizer was made without one, or unless 0 < momentum < 1.
  void set_momentum(double momentum);

  [[nodiscard]] const std::vector<nn::NamedParameter>& parameters() const { return parameters_; }
  /// Whether an element's update depends on that element alone, so that a part of a parameter is
  /// updated as the whole: false for LARS and LAMB, whose trust ratios are norms of parameters.
  [[nodiscard]] bool is_elementwise() const noexcept { return setup_.elementwise; }
  /// Whether a DeviceGraph can capture step(): true for the library's elementwise ones.
  [[nodiscard]] bool is_capturable() const noexcept { return setup_.capturable; }

  /// The state by `<parameter name>/<slot>`, e.g. "conv1.weight/momentum_buffer"; `<parameter
  /// name>/step`, an i64 scalar on the host, the parameter's number of updates; and `<parameter
  /// name>/master`, the f32 copy of a 16-bit parameter. It is
  /// the optimizer's own memory, complete from construction, so that loading into it before or
  /// after the first step continues exactly where the saved optimizer was. Empty for a stateless
  /// one. Waits for a step by StepTensors on a device.
  [[nodiscard]] StateDict state_dict() const;
  /// From now on state_dict() tells of each slot the placement that `model`, a Module's
  /// state_dict(), tells of its parameter: they are cut alike. Names that are no parameters' are
  /// passed over.
  void take_placements(const StateDict& model);
  /// PyTorch's param_groups: the current options of each group, in the order of groups, and last
  /// those of parameters in no group, by `param_groups/<group>/<option>`, e.g.
  /// "param_groups/0/weight_decay". f64 scalars on the host, copies. To go on with the bits of a
  /// run that has changed them, a checkpoint holds them beside the state:
  ///   state.insert_all("", optimizer.param_groups());
  [[nodiscard]] StateDict param_groups();
  /// Copies into the state and, if they are given, restores the options of param_groups() in place
  /// of those from construction; the assignment of parameters to groups does not change. Throws
  /// Error listing names or shapes that do not fit; then nothing has changed.
  void load_state_dict(const StateDict& state);

 protected:
  /// The parts of an optimizer other than its formula.
  struct Setup {
    double lr = 0.0;
    double weight_decay = 0.0;
    std::vector<std::string> slots;  ///< names of the tensors it keeps a parameter; none: no state
    bool elementwise = true;         ///< false: the formula needs to see each parameter on its own
    /// update() reads Run::tensors if they are given, and changes nothing if the step is skipped
    bool reads_step_tensors = false;
    bool capturable = false;  ///< update() works by Run::captured where that is given
  };

  /// Throws InputError for groups or numbers out of range. Throws Error without parameters, or for
  /// a parameter that is undefined, not a leaf, not floating, or given twice (by name or by
  /// memory). Frozen ones have state as the others, and are skipped for as long as they have no
  /// gradient.
  Optimizer(std::vector<nn::NamedParameter> parameters, Setup setup,
            const std::vector<ParameterGroup>& groups);

  using OptionVisitor = std::function<void(const char* name, double& value)>;

  /// The formula.
  virtual void update(const Run& run) = 0;
  virtual void keep_momentum(double momentum) = 0;
  /// See GroupedOptions::visit.
  virtual void visit_options(std::size_t /*group*/, const OptionVisitor& /*visit*/) {}

 private:
  /// The options that every optimizer's groups have.
  struct Group {
    double lr = 0.0;  ///< of the next step
    double weight_decay = 0.0;
    double lr_factor = 1.0;   ///< of the optimizer's rate;
    bool has_own_lr = false;  ///< or its own rate,
    double initial_lr = 0.0;  ///< which is this; of the last group, the optimizer's
  };

  /// visit(name, value) for each option of all groups, by their names in checkpoints.
  template <class Visit>
  void visit_groups(const Visit& visit);
  /// The parts of a run of the last step.
  struct Planned {
    Run run;
    std::size_t end;  ///< of its parameters in order_; they begin at the end of the previous run
  };
  /// A parameter at that time; all of order_, including those without a gradient.
  struct Seen {
    bool has_gradient = false;
    const void *value = nullptr, *gradient = nullptr;
    std::int64_t* step = nullptr;  ///< in steps_; nullptr without state
  };

  void make_state();
  [[nodiscard]] Device device() const { return parameters_.front().variable.data().device(); }
  void update_all(double gradient_factor, const StepTensors* tensors);
  void update_with_master(const Run& run);
  /// The graph that this thread captures on the parameters' device, or null.
  [[nodiscard]] DeviceGraph* capturing_graph() const;
  void capture(DeviceGraph& graph, double gradient_factor, const StepTensors* tensors);
  /// Lets settle() know later whether the newest step was left out.
  void note_outcome(const Tensor& found_inf);
  /// Takes back the counts of the step before, if the device has left it out.
  void settle() const;
  /// True if every parameter has its old address, still has a gradient if it had one, and, within a
  /// run, has as many updates as its neighbours.
  [[nodiscard]] bool plan_holds() const noexcept;
  [[nodiscard]] bool is_as_seen(std::size_t k) const noexcept;
  void make_plan();
  /// The updated tensor: the parameter, or its f32 copy.
  [[nodiscard]] const Tensor& value(std::size_t parameter) const;
  [[nodiscard]] Run run_of(std::size_t parameter, const Tensor& gradient) const;
  [[nodiscard]] bool extend(Run& run, std::size_t parameter, const Tensor& gradient) const;

  std::vector<nn::NamedParameter> parameters_;
  Setup setup_;
  std::vector<Group> groups_;               ///< as given, and last those of parameters in no group
  std::vector<Tensor> masters_;             ///< one a parameter, undefined unless it has 16 bits
  std::vector<std::size_t> group_of_;       ///< one a parameter: its group
  std::vector<std::size_t> order_;          ///< the parameters by address
  std::vector<std::vector<Tensor>> slots_;  ///< [slot][parameter]
  std::vector<Tensor> steps_;               ///< [parameter]; empty without state
  std::vector<Placement> placements_;       ///< [parameter]
  std::vector<Planned> plan_;
  std::vector<Seen> seen_;  ///< in the order of order_
  /// Of the newest step by StepTensors, which may have been left out on the device.
  struct Unsettled {
    explicit Unsettled(Device device) : arrived(device) {}
    Tensor found_inf;  ///< pinned; 0 once its counts are taken back
    DeviceEvent arrived;
  };
  std::unique_ptr<Unsettled> unsettled_;
};

}  // namespace lockstep::optim
