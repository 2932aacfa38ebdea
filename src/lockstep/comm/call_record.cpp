#include <lockstep/comm/call_record.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

std::string name_and_number(const CallRecord& call, const std::string& details) {
  std::string text = fmt::format("{}{} #{}", name_of(call.kind), details, call.sequence);
  if (call.has_tensor) text += fmt::format(" of {}{}", name_of(call.dtype), to_string(call.shape));
  if (call.device_type != DeviceType::host) {
    text += " on " + to_string(Device{call.device_type, call.device_index});
  }
  return text;
}

std::string details_of(const CallRecord& call) {
  switch (call.kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter:
      return fmt::format("({})", name_of(call.op));
    case Kind::reduce:
      return fmt::format("({}, root {})", name_of(call.op), call.root);
    case Kind::broadcast:
    case Kind::gather:
    case Kind::scatter:
      return fmt::format("(root {})", call.root);
    case Kind::send:
      return fmt::format("(to rank {}, tag {})", call.root, call.tag);
    case Kind::receive:
      if (call.root == any_source) return fmt::format("(from any rank, tag {})", call.tag);
      return fmt::format("(from rank {}, tag {})", call.root, call.tag);
    default:
      return "";
  }
}

}  // namespace

CallRecord record_of(const Operation& operation) noexcept {
  const Tensor& t = operation.input.defined() ? operation.input : operation.output;
  return {.kind = operation.kind,
          .op = operation.op,
          .dtype = t.dtype(),
          .has_tensor = t.defined(),
          .device_type = operation.device.type,
          .device_index = static_cast<std::int16_t>(operation.device.index),
          .root = operation.root,
          .tag = operation.tag,
          .sequence = operation.sequence,
          .shape = t.shape()};
}

std::string differences(const CallRecord& a, const CallRecord& b) {
  std::vector<const char*> names;
  if (a.kind != b.kind) names.push_back("operation");
  if (a.op != b.op) names.push_back("reduction");
  if (a.root != b.root) names.push_back("root");
  if (a.dtype != b.dtype) names.push_back("dtype");
  if (!(a.shape == b.shape)) names.push_back("shape");
  if (a.device_type != b.device_type) names.push_back("device");
  if (names.empty()) return "counts";
  return fmt::format("{}", fmt::join(names, " and "));
}

std::string called_something_else(int rank, const CallRecord& mine, const CallRecord& theirs) {
  std::string text = fmt::format("rank {} called {}, another {}", rank, describe_fully(theirs),
                                 differences(mine, theirs));
  if (mine.device_type == theirs.device_type) return text;
  const auto device_of = [](const CallRecord& call) {
    return to_string(Device{call.device_type, call.device_index});
  };
  return fmt::format("{}: {} there, {} here", text, device_of(theirs), device_of(mine));
}

std::string describe(const CallRecord& call) { return name_and_number(call, ""); }

std::string describe_fully(const CallRecord& call) {
  return name_and_number(call, details_of(call));
}

}  // namespace lockstep
