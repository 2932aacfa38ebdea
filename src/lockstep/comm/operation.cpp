#include <lockstep/comm/operation.hpp>

#include <fmt/format.h>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

const char* name_of(Operation::Kind kind) noexcept {
  switch (kind) {
    case Operation::Kind::all_reduce:
      return "all_reduce";
    case Operation::Kind::broadcast:
      return "broadcast";
    case Operation::Kind::all_gather:
      return "all_gather";
    case Operation::Kind::barrier:
      return "barrier";
  }
  return "unknown operation";
}

void expect_host_tensor(const char* operation, const char* argument, const Tensor& t) {
  if (!t.defined()) {
    throw ShapeError(
        fmt::format("{}: {} is not a tensor (default-constructed)", operation, argument));
  }
  if (t.device().type != DeviceType::host) {
    throw ShapeError(
        fmt::format("{}: {} is {}; this backend takes host tensors only. Copy it to the "
                    "host first",
                    operation, argument, describe(t)));
  }
}

bool reducible(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
    case DType::f64:
    case DType::i32:
    case DType::i64:
    case DType::u8:
      return true;
    default:
      return false;
  }
}

std::string name_and_number(const Operation& operation, const std::string& details) {
  std::string text = fmt::format("{}{} #{}", name_of(operation.kind), details, operation.sequence);
  if (operation.output.defined()) {
    // all_gather is known by what each rank brings.
    const Tensor& t = operation.input.defined() ? operation.input : operation.output;
    text += fmt::format(" of {}{}", name_of(t.dtype()), to_string(t.shape()));
  }
  return text;
}

}  // namespace

Operation all_reduce_operation(const Tensor& t, ReduceOp op) {
  expect_host_tensor("all_reduce", "its argument", t);
  const bool averages = op == ReduceOp::avg;
  if (averages ? t.dtype() != DType::f32 && t.dtype() != DType::f64 : !reducible(t.dtype())) {
    throw ShapeError(fmt::format("all_reduce({}) takes {}, not {}", name_of(op),
                                 averages ? "f32 or f64" : "f32, f64, i32, i64 or u8",
                                 describe(t)));
  }
  Operation operation;
  operation.kind = Operation::Kind::all_reduce;
  operation.op = op;
  operation.output = t;
  return operation;
}

Operation broadcast_operation(const Tensor& t, int root, int size) {
  expect_host_tensor("broadcast", "its argument", t);
  if (root < 0 || root >= size) {
    throw ShapeError(fmt::format("broadcast of {} from root {}: the group's ranks are 0 to {}",
                                 describe(t), root, size - 1));
  }
  Operation operation;
  operation.kind = Operation::Kind::broadcast;
  operation.root = root;
  operation.output = t;
  return operation;
}

Operation all_gather_operation(const Tensor& input, const Tensor& output, int size) {
  expect_host_tensor("all_gather", "the input", input);
  expect_host_tensor("all_gather", "the output", output);
  bool fits = input.dtype() == output.dtype() && output.dims() == input.dims() + 1 &&
              output.size(0) == size;
  for (int d = 0; fits && d < input.dims(); ++d) fits = output.size(d + 1) == input.size(d);
  if (!fits) {
    throw ShapeError(fmt::format(
        "all_gather over {} ranks of {} into {}: the output must have the input's dtype, and its "
        "shape with a leading {}",
        size, describe(input), describe(output), size));
  }
  Operation operation;
  operation.kind = Operation::Kind::all_gather;
  operation.input = input;
  operation.output = output;
  return operation;
}

bool same_call(const Operation& a, const Operation& b) noexcept {
  return a.kind == b.kind && a.op == b.op && a.root == b.root &&
         a.output.defined() == b.output.defined() && a.output.dtype() == b.output.dtype() &&
         a.output.numel() == b.output.numel();
}

const char* name_of(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  return "unknown reduction";
}

std::string describe(const Operation& operation) { return name_and_number(operation, ""); }

std::string describe_fully(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::all_reduce:
      return name_and_number(operation, fmt::format("({})", name_of(operation.op)));
    case Operation::Kind::broadcast:
      return name_and_number(operation, fmt::format("(root {})", operation.root));
    default:
      return describe(operation);
  }
}

std::string refusal(const std::string& speaker, const std::string& reason) {
  return fmt::format("{}: this process group is unusable, because {}", speaker, reason);
}

}  // namespace lockstep
