#include <lockstep/checkpoint/inspect.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep {
namespace {

bool is_tensor(const DatasetEntry& entry) {
  return entry.path.starts_with("/model/") || entry.path.starts_with("/optimizer/");
}

std::string describe_contents(const std::filesystem::path& path) {
  const CheckpointFile file(path);
  const auto& datasets = file.manifest().datasets;
  fmt::memory_buffer out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "{}: {}\n", path.string(), format_bytes(file.bytes()));

  std::size_t width = 0;
  constexpr std::size_t widest = 100;
  for (const auto& d : datasets) width = std::max(width, std::min(widest, d.path.size()));
  // More would only fill the screen.
  constexpr std::int64_t most_values = 1000, most_tensors = 10'000;
  std::int64_t values = 0;
  for (const auto& d : datasets) {
    if (d.path == "/deck" || d.path == "/signature" || is_tensor(d)) continue;
    if (++values > most_values) continue;
    const auto value = d.text                  ? file.text(d.path)
                       : d.dtype == DType::f64 ? fmt::format("{}", file.real(d.path))
                                               : fmt::format("{}", file.integer(d.path));
    fmt::format_to(to, "  {:<{}}  {}\n", d.path, width, value);
  }

  if (values > most_values) fmt::format_to(to, "  ... {} more\n", values - most_values);

  fmt::format_to(to, "\n  {:<{}}  {:<5} {:<20} {:>14}\n", "tensor", width, "dtype", "shape",
                 "bytes");
  std::int64_t tensors = 0, elements = 0, bytes = 0, stored = 0;
  for (const auto& d : datasets) {
    if (!is_tensor(d)) continue;
    if (tensors < most_tensors) {
      fmt::format_to(to, "  {:<{}}  {:<5} {:<20} {:>14}\n", d.path, width, name_of(d.dtype),
                     to_string(d.shape), d.bytes());
    }
    ++tensors;
    elements += d.shape.numel();
    bytes += d.bytes();
    stored += d.stored_bytes();
  }
  if (tensors > most_tensors) fmt::format_to(to, "  ... {} more\n", tensors - most_tensors);
  fmt::format_to(to, "  {} tensors, {} elements, {}{}\n", tensors, elements, format_bytes(bytes),
                 stored < bytes ? ", compressed to " + format_bytes(stored) : "");
  for (const auto* text : {"/signature", "/deck"}) {
    if (file.manifest().find(text)) fmt::format_to(to, "\n{}\n{}\n", text, file.text(text));
  }
  return fmt::to_string(out);
}

template <class F>
CheckpointReport report(F&& text) {
  try {
    return {text(), ExitCode::done};
  } catch (const Error& e) {
    return {std::string(e.what()) + "\n", ExitCode::checkpoint};
  }
}

}  // namespace

CheckpointReport inspect_checkpoint(const std::filesystem::path& path) {
  return report([&] { return describe_contents(path); });
}

CheckpointReport check_checkpoint(const std::filesystem::path& path) {
  return report([&] {
    const std::string not_finite = verify_checkpoint(path);
    const CheckpointFile file(path);
    return fmt::format(
        "{}: good ({} in {} data sets){}\n", path.string(), format_bytes(file.bytes()),
        file.manifest().datasets.size(),
        not_finite.empty()
            ? ""
            : fmt::format("; {} has elements that are not finite (train.on_nan = \"ignore\")",
                          not_finite));
  });
}

}  // namespace lockstep
