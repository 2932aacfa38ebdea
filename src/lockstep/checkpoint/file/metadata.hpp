#pragma once
#include <string>
#include <utility>
#include <vector>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// The model of this machine's processor, "unknown" where the system does not say.
[[nodiscard]] const std::string& cpu_model();

/// Vector extensions of this CPU by which math libraries choose kernels: "avx2 avx512f".
[[nodiscard]] std::string cpu_features();

/// Metadata on the writer of a checkpoint: Lockstep's version, commit, compiler and flags, CPU and
/// its features, host, backend, ranks, and the time in UTC.
[[nodiscard]] Metadata describe_writer(const ProcessGroup& group);

/// One sentence on differences between the writer of a checkpoint and now that may change bits
/// (versions, build, CPU features; not host, ranks or time). Empty if there are none. Only keys
/// present in both count.
[[nodiscard]] std::string environment_changes(const Metadata& written, const Metadata& now);

}  // namespace lockstep
