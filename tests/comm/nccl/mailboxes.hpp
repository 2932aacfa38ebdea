#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

/// Messages between ranks that are threads or processes of this machine: files in memory, in a
/// folder known to all.
class Mailboxes {
 public:
  explicit Mailboxes(std::string folder) : folder_(std::move(folder)) {}

  /// A new folder, removed with those beside it when this process ends. Its name is all that others
  /// need.
  [[nodiscard]] static Mailboxes make();
  /// Another one, beside this: every rank gets the same for the same name.
  [[nodiscard]] Mailboxes beside(const std::string& name) const;
  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }

  /// From then on has(name) is true.
  void put(const std::string& name, std::span<const std::byte> bytes) const;
  [[nodiscard]] bool has(const std::string& name) const noexcept;
  [[nodiscard]] std::vector<std::byte> read(const std::string& name) const;
  void forget(const std::string& name) const noexcept;
  /// This rank needs the folder no more. The last of `ranks` takes it away.
  void leave(int rank, int ranks) const noexcept;

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

}  // namespace lockstep::test
