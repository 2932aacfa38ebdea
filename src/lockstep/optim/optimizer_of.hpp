#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/optimizer.hpp>

namespace lockstep::optim {

/// Base of an optimizer with its own options, a struct with `lr` whose deck keys are declared with
/// it. Parameter groups and checkpoints change the options by these keys. `weight_decay`, `eps`,
/// `momentum` and `betas` mean the same in all optimizers: their ranges are checked, and schedules
/// change `momentum`, or the first of `betas`, if there is one. A derived class adds a constructor
/// and update().
template <class Options>
class OptimizerOf : public Optimizer {
 public:
  /// The options of parameters in no group.
  [[nodiscard]] const Options& options() const noexcept { return options_.usual(); }
  [[nodiscard]] double momentum() const noexcept override {
    if constexpr (requires { options().momentum; }) {
      return options().momentum;
    } else if constexpr (requires { options().betas; }) {
      return options().betas[0];
    } else {
      return 0.0;
    }
  }

 protected:
  /// A tensor that is kept for each parameter.
  struct Slot {
    const char* name;
    bool (*needed)(const Options&) = nullptr;  ///< by the options of one group; nullptr: always
  };
  /// The parts of the optimizer other than its formula.
  struct Form {
    const char* name;                 ///< for messages
    std::vector<Slot> slots;          ///< none: no state
    bool elementwise = true;          ///< false: the formula needs to see each parameter on its own
    bool reads_step_tensors = false;  ///< see Setup
    /// Throws InputError for further options out of range.
    void (*validate)(const char* name, const Options& options) = nullptr;
  };

  /// Throws InputError if an option is out of range, Error for parameters that cannot be optimized.
  OptimizerOf(std::vector<nn::NamedParameter> parameters, const Options& options,
              const std::vector<ParameterGroup>& groups, const Form& form)
      : OptimizerOf(std::move(parameters), groups, form,
                    GroupedOptions<Options>(form.name, options, groups, [&](const Options& some) {
                      expect_ranges(form.name, some);
                      if (form.validate) form.validate(form.name, some);
                    })) {}

  [[nodiscard]] const Options& options_of(const Run& run) const { return options_[run.group]; }
  [[nodiscard]] const Options& options_of_group(std::size_t group) const { return options_[group]; }

  void visit_options(std::size_t group, const OptionVisitor& visit) override {
    options_.visit(group, visit);
  }
  void keep_momentum([[maybe_unused]] double momentum) override {
    options_.change_all([&](Options& options) {
      if constexpr (requires { options.momentum; }) {
        options.momentum = momentum;
      } else if constexpr (requires { options.betas; }) {
        options.betas[0] = momentum;
      }
    });
  }

 private:
  OptimizerOf(std::vector<nn::NamedParameter> parameters, const std::vector<ParameterGroup>& groups,
              const Form& form, GroupedOptions<Options> options)
      : Optimizer(std::move(parameters), setup_of(form, options), groups),
        options_(std::move(options)) {}

  static Setup setup_of(const Form& form, const GroupedOptions<Options>& options) {
    Setup setup{.lr = options.usual().lr,
                .elementwise = form.elementwise,
                .reads_step_tensors = form.reads_step_tensors,
                .capturable = form.elementwise && form.reads_step_tensors};
    if constexpr (requires { options.usual().weight_decay; })
      setup.weight_decay = options.usual().weight_decay;
    for (const Slot& slot : form.slots) {
      if (!slot.needed || options.any(slot.needed)) setup.slots.emplace_back(slot.name);
    }
    return setup;
  }

  static void expect_ranges(const char* name, const Options& options) {
    if constexpr (requires { options.betas; }) {
      constexpr const char* ordinals[] = {"first beta", "second beta", "third beta", "last beta"};
      for (std::size_t i = 0; i < options.betas.size(); ++i)
        expect_below_one(name, ordinals[std::min<std::size_t>(i, 3)], options.betas[i]);
    }
    if constexpr (requires { options.momentum; })
      expect_not_negative(name, "momentum", options.momentum);
    if constexpr (requires { options.eps; }) expect_not_negative(name, "eps", options.eps);
    if constexpr (requires { options.weight_decay; })
      expect_not_negative(name, "weight_decay", options.weight_decay);
  }

  GroupedOptions<Options> options_;
};

}  // namespace lockstep::optim
