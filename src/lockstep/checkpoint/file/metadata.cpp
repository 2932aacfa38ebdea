#include <lockstep/checkpoint/file/metadata.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/version.hpp>

namespace lockstep {
namespace {

std::string read_cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

/// Keys whose change does not affect bits.
bool is_circumstance(const std::string& key) {
  constexpr std::array keys{"cpu", "host", "ranks", "backend", "written", "commit"};
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace

const std::string& cpu_model() {
  static const std::string model = read_cpu_model();  // which takes longer than a small save
  return model;
}

std::string cpu_features() {
  std::string features;
#if defined(__x86_64__)
  const auto add = [&](const char* name, int there) {
    if (there) features.append(features.empty() ? "" : " ").append(name);
  };
  add("sse4.2", __builtin_cpu_supports("sse4.2"));
  add("avx2", __builtin_cpu_supports("avx2"));
  add("fma", __builtin_cpu_supports("fma"));
  add("avx512f", __builtin_cpu_supports("avx512f"));
  add("avx512bw", __builtin_cpu_supports("avx512bw"));
  add("avx512vnni", __builtin_cpu_supports("avx512vnni"));
  add("avx512bf16", __builtin_cpu_supports("avx512bf16"));
#endif
  return features.empty() ? "none known" : features;
}

Metadata describe_writer(const ProcessGroup& group) {
  const BuildInfo& build = build_info();
  return {{"lockstep", version()},
          {"commit", build.git_commit},
          {"compiler", build.compiler},
          {"flags", build.flags},
          {"arch", build.arch},
          {"cpu", cpu_model()},
          {"cpu_features", cpu_features()},
          {"host", host_name()},
          {"backend", group.backend()},
          {"ranks", std::to_string(group.size())},
          {"written", utc_text("%Y-%m-%dT%H:%M:%SZ")}};
}

std::string environment_changes(const Metadata& written, const Metadata& now) {
  std::string changes;
  for (const auto& [key, before] : written) {
    const auto at = std::ranges::find(now, key, &Metadata::value_type::first);
    if (at == now.end() || at->second == before || is_circumstance(key)) continue;
    changes +=
        fmt::format("{}{} '{}', now '{}'", changes.empty() ? "" : "; ", key, before, at->second);
  }
  if (changes.empty()) return {};
  return "the checkpoint was written with " + changes +
         ": the run goes on, but its bits may differ from those of an uninterrupted one";
}

}  // namespace lockstep
