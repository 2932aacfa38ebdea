#include <lockstep/train/launch/shared_folder.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/descriptor.hpp>
#include <lockstep/comm/agreement.hpp>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* choose_another =
    "Choose another folder with --set 'run.dir=\"...\"', on a file system that all nodes share.";

struct ProbeFacts {
  std::string name;
  int error = 0;  ///< errno of its creation

  static auto fields(auto& self) { return std::tie(self.name, self.error); }
};

/// A file with a new name, so that no cached answer of a network file system can deny it. Removed
/// at the end of the scope.
class Probe {
 public:
  explicit Probe(const fs::path& folder)
      : facts_{.name = fmt::format(".lockstep-probe-{}-{}", getpid(),
                                   Clock::now().time_since_epoch().count())},
        path_(folder / facts_.name) {
    const Descriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file || ::write(file.get(), "x", 1) != 1) facts_.error = errno;
  }
  ~Probe() { ::unlink(path_.c_str()); }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  [[nodiscard]] const ProbeFacts& facts() const noexcept { return facts_; }

 private:
  ProbeFacts facts_;
  fs::path path_;
};

/// Network file systems may take a moment to show another node's writes.
bool appears(const fs::path& file) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::error_code ignored;
    if (fs::exists(file, ignored)) return true;
  }
  return false;
}

}  // namespace

Findings check_shared_folder(ProcessGroup& group, const NodeLayout& layout,
                             const fs::path& folder) {
  std::optional<Probe> probe;
  const ProbeFacts made = agree(group, 0, [&] { return probe.emplace(folder).facts(); });
  if (made.error != 0) {
    return {{Finding::Severity::error, "run folder",
             fmt::format("{} cannot be written: {}", folder.string(), std::strerror(made.error)),
             choose_another}};
  }
  const bool asked = group.rank() != 0 && layout.is_leader(group.rank());
  const std::vector<bool> all_missing =
      agree(group, [&] { return asked && !appears(folder / made.name); });
  std::string hosts;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (all_missing[static_cast<std::size_t>(rank)]) hosts += " " + layout.host_of(rank);
  }
  if (hosts.empty()) return {};
  return {{Finding::Severity::error, "run folder",
           fmt::format("a file that rank 0 ({}) wrote to {} is not visible on{}", layout.host_of(0),
                       folder.string(), hosts),
           choose_another}};
}

}  // namespace lockstep::train
