#include <lockstep/rpc/remote_module.hpp>

#include <lockstep/nn/module.hpp>
#include <lockstep/rpc/call.hpp>
#include <lockstep/rpc/distributed_optimizer.hpp>

namespace lockstep::rpc::detail {
namespace {

nn::Module& module_of(const OwnedObject& place) {
  return place.bases.as<nn::Module>(*place.type, place.object.get());
}

void execute_forward(Execution& execution) {
  Target target;
  Variable x;
  read(execution.message(), target, x);
  const auto place = object_of(execution, target);
  conclude<Variable>(execution.reply(), module_of(*place).forward(x));
  execution.reply().end();
}

void execute_parameters(Execution& execution) {
  Target target;
  read(execution.message(), target);
  const auto place = object_of(execution, target);
  conclude<std::vector<RRef<Variable>>>(execution.reply(), parameter_rrefs(module_of(*place)));
  execution.reply().end();
}

void forward_of_module() {}
void parameters_of_module() {}

Function forward_entry{.name = "RemoteModule::forward",
                       .pointer = pointer_to(&forward_of_module),
                       .signature_text = "lockstep::rpc::RemoteModule::forward",
                       .execute = &execute_forward};
Function parameters_entry{.name = "RemoteModule::remote_parameters",
                          .pointer = pointer_to(&parameters_of_module),
                          .signature_text = "lockstep::rpc::RemoteModule::remote_parameters",
                          .execute = &execute_parameters};

[[maybe_unused]] const bool added = [] {
  add_function(forward_entry);
  add_function(parameters_entry);
  return true;
}();

}  // namespace

Future<Variable> forward_there(const ReferenceHandle& module, const Variable& x,
                               std::chrono::milliseconds timeout) {
  return start_call_of_object<Variable>(module, forward_entry, timeout, Types<const Variable&>{},
                                        x);
}

Future<std::vector<RRef<Variable>>> parameters_there(const ReferenceHandle& module) {
  return start_call_of_object<std::vector<RRef<Variable>>>(module, parameters_entry, {}, Types<>{});
}

}  // namespace lockstep::rpc::detail
